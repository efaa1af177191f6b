//! The pages of the docs: their commands, their links and the version that they name.
//!
//! ```text
//! page:  fences, headings and links of a page
//! links: every link leads somewhere                              (a test, here; and that versions are this one)
//! run:   every command of a page is run, or says why it is not   (stages of `cargo xtask test`)
//! ```
//!
//! A block of commands begins with one of
//!
//! | fence | |
//! |---|---|
//! | `sh` | is run without a cluster, in every run |
//! | `sh localkube` | is run on the cluster of the quickstart, after it |
//! | `sh localkube last` | at the very end |
//! | `sh no-run=REASON` | is not |
//!
//! with `exit=N` or `exit=any` behind it if its last command is not meant to end with 0. A block of `yaml` with `file=PATH` is
//! that file.

mod links;
mod page;
mod run;

pub use run::{on_localkube, without_cluster};

#[cfg(test)]
mod tests {
    use super::page::Page;
    use crate::dist::VERSION;
    use crate::localkube::workspace;
    use std::{fs, path::Path};

    /// Returns the versions of archives and images in a text: `holdfast-1.2.3.oci.tar`, `holdfast:1.2.3`.
    fn versions(text: &str) -> Vec<&str> {
        let after =
            ["holdfast-", "holdfast:"].into_iter().flat_map(|name| text.split(name).skip(1));
        let versions = after.map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            rest[..end].trim_end_matches('.')
        });
        versions.filter(|version| version.contains('.')).collect()
    }

    #[test]
    fn the_docs_name_the_version_that_there_is() {
        let text = "holdfast-1.2.3.oci.tar, r/holdfast:1.2.4. In holdfast-system";
        assert_eq!(versions(text), ["1.2.3", "1.2.4"]);
        let mut found = 0;
        for page in Page::all().unwrap() {
            // It also names earlier versions.
            if page.path == Path::new("CHANGELOG.md") {
                continue;
            }
            let text = fs::read_to_string(workspace().join(&page.path)).unwrap();
            for version in versions(&text) {
                assert_eq!(version, VERSION, "{}", page.path.display());
                found += 1;
            }
        }
        assert!(found > 9, "{found}");
    }
}
