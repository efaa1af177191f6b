//! Checks that every link of a page leads to an existing file and heading. Links of the book must stay in the
//! book, because mdBook copies no other files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::page::Page;
use crate::localkube::workspace;

const BOOK: &str = "docs";

/// Returns the dead links with their places.
pub fn dead(pages: &[Page]) -> Vec<String> {
    let by_path: BTreeMap<&Path, &Page> =
        pages.iter().map(|page| (page.path.as_path(), page)).collect();
    let mut dead = Vec::new();
    for page in pages {
        for (line, target) in &page.links {
            if target.starts_with("https://") || target.starts_with("http://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => page.path.clone(),
                file => plain(&page.path.with_file_name("").join(file)),
            };
            let is_there = by_path.contains_key(path.as_path()) || workspace().join(&path).exists();
            let leaves_the_book = page.path.starts_with(BOOK) && !path.starts_with(BOOK);
            let known = by_path
                .get(path.as_path())
                .is_none_or(|to| to.anchors.iter().any(|a| a == heading));
            if !is_there || leaves_the_book || !(heading.is_empty() || known) {
                dead.push(format!("{}:{line}: {target}", page.path.display()));
            }
        }
    }
    dead
}

/// Resolves `..` as far as possible.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        if part != Component::ParentDir || !plain.pop() {
            plain.push(part);
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_dead() {
        assert_eq!(dead(&Page::all().unwrap()), [""; 0]);
    }

    #[test]
    fn dead_links_are_found() {
        let text =
            "# One\n[a](#one) [b](#two) [c](install.md) [d](gone.md) [e](https://example.com)";
        let page = Page::read("docs/x.md".into(), text).unwrap();
        assert_eq!(dead(&[page]), ["docs/x.md:2: #two", "docs/x.md:2: gone.md"]);
    }

    #[test]
    fn links_stay_in_the_book() {
        let page = |path: &str, text| Page::read(path.into(), text).unwrap();
        let pages = [page("docs/x.md", "[a](../README.md)"), page("x.md", "[b](docs/install.md)")];
        assert_eq!(dead(&pages), ["docs/x.md:1: ../README.md"]);
    }

    /// No page may be missing from the book.
    #[test]
    fn the_book_has_every_page() {
        let pages = Page::all().unwrap();
        let summary = pages.iter().find(|page| page.path.ends_with("SUMMARY.md")).unwrap();
        for page in pages.iter().filter(|page| page.path.starts_with(BOOK)) {
            let path = page.path.strip_prefix(BOOK).unwrap().to_str().unwrap();
            let is_listed = summary.links.iter().any(|(_, target)| target == path);
            assert!(is_listed || path == "SUMMARY.md", "{path} is not in docs/SUMMARY.md");
        }
    }
}
