//! What an installation has put on the cluster.

use serde_json::{Value, json};

use crate::instance::URL;
use crate::resources::{Kind, all};
use crate::world::World;

const SYSTEM: &str = "holdfast-system";

pub fn create(world: &mut World) {
    let webhooks = json!({"webhooks": [{"clientConfig": {"url": URL}}]});
    put(world, "mutatingwebhookconfigurations", "", "holdfast", webhooks);
    put(world, "flowschemas", "", "holdfast", json!({}));
    put(world, "prioritylevelconfigurations", "", "holdfast", json!({}));
    if world.params.native {
        native(world);
    }
}

/// `policy/v1` is Holdfast's, and has been for a long time.
fn native(world: &mut World) {
    let service = json!({"namespace": SYSTEM, "name": "holdfast", "port": 443});
    let mut standing = json!({"spec": {"group": "policy", "version": "v1", "service": service}});
    standing["metadata"]["annotations"] =
        json!({"holdfast.dev/taken-over": "2020-01-01T00:00:00Z"});
    put(world, "apiservices", "", "v1.policy", standing);
    let ports = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 443}]}});
    put(world, "services", SYSTEM, "holdfast", ports);
    let authority = rcgen::generate_simple_self_signed(vec!["front-proxy".to_owned()]);
    let authority = authority.expect("a certificate").cert.pem();
    let data = json!({"data": {
        "requestheader-client-ca-file": authority,
        "requestheader-allowed-names": "[]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
    }});
    put(world, "configmaps", "kube-system", "extension-apiserver-authentication", data);
}

fn put(world: &mut World, plural: &str, namespace: &str, name: &str, mut object: Value) {
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "holdfast"});
    let kind: Kind = all().find(|kind| kind.plural == plural).expect("a known resource");
    world.create(kind, object);
}
