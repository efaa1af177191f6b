//! The auditor shares no code with what it judges.

#[test]
fn the_manifest_names_no_crate_of_the_engine() {
    let manifest = include_str!("../../Cargo.toml");
    let names = manifest.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = names.filter(|line| line.contains("holdfast-")).collect();
    assert_eq!(names, ["name = \"holdfast-audit\""]);
}
