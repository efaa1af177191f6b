//! The bill of materials of the program in `CycloneDX` 1.6: the linked crates with their checksums.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::VERSION;
use crate::localkube::cargo;

pub fn sbom(workspace: &Path, target: &str) -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", target])
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    let lock = fs::read_to_string(workspace.join("Cargo.lock")).context("read Cargo.lock")?;
    from_metadata(&metadata, &checksums(&lock))
}

/// Checksums by name and version.
type Checksums = BTreeMap<(String, String), String>;

fn from_metadata(metadata: &Value, checksums: &Checksums) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> =
        items(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
    let links: BTreeMap<&str, Vec<&str>> = items(&metadata["resolve"]["nodes"])
        .map(|node| (text(&node["id"]), items(&node["deps"]).filter_map(linked).collect()))
        .collect();
    let root = packages.iter().find(|(_, package)| package["name"] == "holdfast");
    let root = *root.context("there is a package holdfast")?.0;
    let (mut found, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(id) = next.pop() {
        if found.insert(id) {
            next.extend(links.get(id).into_iter().flatten());
        }
    }
    let of = |id: &str| packages.get(id).context("every dependency is a package");
    let (mut components, mut dependencies) = (Vec::new(), Vec::new());
    for id in &found {
        let package = of(id)?;
        let needs = links.get(id).into_iter().flatten();
        let mut needs = needs.map(|id| of(id).map(|p| purl(p))).collect::<Result<Vec<_>>>()?;
        needs.sort();
        needs.dedup();
        dependencies.push(json!({"ref": purl(package), "dependsOn": needs}));
        if *id != root {
            components.push(component(package, checksums, "library"));
        }
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(of(root)?, checksums, "application"),
            "tools": {"components": [{"type": "application", "name": "cargo xtask dist", "version": VERSION}]},
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the package of a dependency, unless it is only for build scripts, macros or tests.
fn linked(dependency: &Value) -> Option<&str> {
    let normal = items(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
    normal.then(|| text(&dependency["pkg"]))
}

fn component(package: &Value, checksums: &Checksums, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // Some old crates have a slash for "or".
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    let key = (text(&package["name"]).to_owned(), text(&package["version"]).to_owned());
    if let Some(checksum) = checksums.get(&key) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

fn checksums(lock: &str) -> Checksums {
    let field = |package: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|package| {
            let key = (field(package, "name")?, field(package, "version")?);
            Some((key, field(package, "checksum")?))
        })
        .collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_with_its_checksum_and_nothing_else() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let packages = ["holdfast", "used", "deeper", "tested", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "holdfast", "deps": [dep("used", Value::Null), dep("tested", json!("dev"))]},
                {"id": "used", "deps": [dep("deeper", Value::Null)]},
                {"id": "deeper", "deps": []},
            ]},
        });
        let lock = "version = 4\n\n[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"ab12\"\n";
        let sbom = from_metadata(&metadata, &checksums(lock)).unwrap();
        let names: Vec<&str> = items(&sbom["components"]).map(|c| text(&c["name"])).collect();
        assert_eq!(names, ["deeper", "used"]);
        assert_eq!(sbom["components"][1]["hashes"][0]["content"], "ab12");
        assert_eq!(sbom["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(sbom["metadata"]["component"]["purl"], "pkg:cargo/holdfast@1.0.0");
        assert_eq!(sbom["dependencies"][1]["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
    }
}
