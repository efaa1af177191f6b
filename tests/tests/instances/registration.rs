//! One registration for all instances, and a kill switch that works while they run.

use std::time::Duration;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::wait::until;
use serde_json::{Value, json};

use holdfast_e2e::fleet::Fleet;

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";

pub fn each_keeps_its_certificate_and_deleting_stays_deleted() {
    let fleet = Fleet::start("registered", 2);
    let admin = &fixture().admin;
    let registered = || admin.get(WEBHOOK).ok().body["webhooks"][0]["clientConfig"].take();
    assert!(certificates(&registered()) >= 2);
    let url = registered()["url"].take();

    let alone = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let _ = admin.json_patch(WEBHOOK, &alone).ok();
    until("both have put their certificates back", || {
        let now = registered();
        if certificates(&now) == 2 { Ok(()) } else { Err(now.to_string()) }
    });
    assert_eq!(registered()["url"], url);

    let _ = admin.delete(WEBHOOK).ok();
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(admin.get(WEBHOOK).code, 404, "deleting it is the kill switch");
    // An instance that starts restores it, and the running instances join.
    let another = fleet.start_one();
    until("all three are in it", || {
        let now = registered();
        if certificates(&now) == 3 { Ok(()) } else { Err(now.to_string()) }
    });
    fleet.retire(another);
    fleet.stop();
}

/// Returns how many certificates it has. The lengths of certificates differ slightly: in base64 one takes
/// some 760 bytes.
fn certificates(config: &Value) -> usize {
    const BYTES_MIN: usize = 700;
    config["caBundle"].as_str().unwrap_or_default().len() / BYTES_MIN
}
