//! Certificates are replaced while evictions continue.

use std::time::Duration;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::server;
use holdfast_e2e::wait::{until, until_within};
use serde_json::Value;

use holdfast_e2e::fleet::Fleet;
use holdfast_e2e::job::{Job, Shape};
use holdfast_e2e::load::under_load;

const CLIENTS: usize = 4;
const EXPIRY: &str = "holdfast_certificate_expiry_timestamp_seconds";

/// The next certificate is created after half of it, so a busy machine has the other half to publish it
/// everywhere.
const LIFETIME: &str = "30s";
const ROTATIONS: usize = 2;

pub fn certificates_rotate_under_load_and_no_admission_fails() {
    // Earlier tests may have left CAs in the bundles: crashed instances remove nothing.
    let _ = server::uninstall().expect("it can be uninstalled");
    let fleet = Fleet::start_with("certificates", 2, &["--certificate-lifetime", LIFETIME]);
    let shape = Shape { budgets: 2, replicas: 6, pods: 2, min_count: 2, min_available: 5 };
    let job = Job::create("certificates", shape);
    let expiry = || fleet.servers.iter().map(|server| server.metric(EXPIRY)).collect::<Vec<_>>();
    let tally = under_load(&job, CLIENTS, || {
        for rotation in 1..=ROTATIONS {
            let before = expiry();
            until_within(Duration::from_mins(1), "every instance serves another", || {
                let now = expiry();
                let all = before.iter().zip(&now).all(|(before, now)| before < now);
                if all { Ok(()) } else { Err(format!("rotation {rotation}: {before:?}, {now:?}")) }
            });
        }
    });
    println!("{ROTATIONS} rotations: {tally}");
    assert!(tally.count(201) > 0, "nothing was evicted: {tally}");
    // An eviction succeeds, is denied, or is for a pod that is gone. 500 would mean that an API server does
    // not trust the webhook's certificate.
    tally.assert_only(&[201, 404, 429]);

    // All bundles have the same few certificates.
    until("every bundle holds the same", || {
        let bundles = bundles();
        let same = bundles.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let few = bundles.iter().all(|(_, held)| (2..=4).contains(&held.len()));
        if same && few { Ok(()) } else { Err(format!("{bundles:#?}")) }
    });
    drop(job);
    fleet.stop();
}

/// Returns the CA certificates of each bundle, in order, with the place of the bundle.
fn bundles() -> Vec<(String, Vec<String>)> {
    let webhooks = |kind: &str| format!("/apis/admissionregistration.k8s.io/v1/{kind}");
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podunavailablebudgets.policy.kruise.io";
    let paths = [
        format!("{}/holdfast", webhooks("mutatingwebhookconfigurations")),
        format!("{}/holdfast", webhooks("validatingwebhookconfigurations")),
        format!("{}/holdfast-pod-groups", webhooks("mutatingwebhookconfigurations")),
        format!("{}/holdfast-pod-groups", webhooks("validatingwebhookconfigurations")),
        crd.to_owned(),
    ];
    let mut found = Vec::new();
    for path in paths {
        let object = fixture().admin.get(&path).ok().body;
        let conversion = &object["spec"]["conversion"]["webhook"];
        let webhooks = object["webhooks"].as_array().into_iter().flatten().chain([conversion]);
        for config in webhooks.map(|webhook| &webhook["clientConfig"]) {
            if config.is_object() {
                found.push((path.clone(), certificates(config)));
            }
        }
    }
    found
}

fn certificates(config: &Value) -> Vec<String> {
    let bundle: k8s_openapi::ByteString =
        serde_json::from_value(config["caBundle"].clone()).expect("it is in base64");
    let text = String::from_utf8(bundle.0).expect("it is PEM");
    let mut all: Vec<String> =
        text.split("-----BEGIN").skip(1).map(|pem| pem.trim().to_owned()).collect();
    all.sort();
    all
}
