//! The memory of one pod, compared with the full type. It decides how large a cluster one instance can watch.
//! This is a separate test binary, because it counts every allocation.

use holdfast_api::pod::Pod as WirePod;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// A pod as a cluster returns it: managed fields, two containers, volumes, probes, nine labels.
const POD: &str = include_str!("fixtures/pod.json");

#[test]
fn a_pod_costs_at_most_an_eighth_of_the_full_type() {
    let json = compact(POD);
    let full = bytes_kept(|| {
        serde_json::from_str::<k8s_openapi::api::core::v1::Pod>(&json).expect("the pod is valid")
    });
    let stripped = bytes_kept(|| {
        let mut pod: k8s_openapi::api::core::v1::Pod =
            serde_json::from_str(&json).expect("the pod is valid");
        pod.metadata.managed_fields = None;
        pod
    });
    let wire = bytes_kept(|| serde_json::from_str::<WirePod>(&json).expect("the pod is valid"));
    let model =
        bytes_kept(|| holdfast_api::decode::pod(json.as_bytes()).expect("the pod is valid"));
    println!("one pod of {} bytes of JSON, in bytes of memory:", json.len());
    println!("  full (k8s-openapi)        {full}");
    println!("  without managedFields     {stripped}");
    println!("  while decoding            {wire}");
    println!("  kept in the engine        {model}");
    assert!((8_000..=10_000).contains(&json.len()), "the fixture is {} bytes", json.len());
    // Compare with the smaller number: caches of the full type usually drop the managed fields.
    assert!(wire * 8 <= stripped, "{wire} bytes while decoding, {stripped} in full");
    assert!(model * 8 <= stripped, "{model} bytes kept, {stripped} in full");
}

/// Returns stack and heap of the result, without the temporary memory of its creation.
fn bytes_kept<T>(make: impl FnOnce() -> T) -> usize {
    let before = HEAP.current_usage();
    let made = make();
    let heap = HEAP.current_usage() - before;
    drop(made);
    size_of::<T>() + heap
}

/// Removes the indentation of the fixture: API servers do not indent.
fn compact(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).expect("the fixture is JSON");
    value.to_string()
}
