//! The parts of a Markdown page that the checks need.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::localkube::workspace;

pub struct Page {
    /// The path from the root of the repository.
    pub path: PathBuf,
    pub blocks: Vec<Block>,
    /// The anchors of the headings.
    pub anchors: Vec<String>,
    /// The links with their lines, without those in blocks.
    pub links: Vec<(usize, String)>,
}

pub struct Block {
    pub line: usize,
    /// The words of the info string, such as `sh localkube exit=1`.
    pub info: Vec<String>,
    pub text: String,
}

impl Page {
    /// Reads the README, the pages beside it, and the book.
    pub fn all() -> Result<Vec<Self>> {
        let mut paths = Vec::new();
        for (dir, deep) in [("", false), ("localkube", false), ("docs", true)] {
            find(&workspace().join(dir), deep, &mut paths)?;
        }
        paths.sort();
        let of = |path: &PathBuf| {
            let text =
                fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
            let path = path.strip_prefix(workspace())?.to_owned();
            Self::read(path.clone(), &text).with_context(|| path.display().to_string())
        };
        paths.iter().map(of).collect()
    }

    pub fn read(path: PathBuf, text: &str) -> Result<Self> {
        let mut page = Self { path, blocks: Vec::new(), anchors: Vec::new(), links: Vec::new() };
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(info)) => {
                    let info = info.split_whitespace().map(str::to_owned).collect();
                    open = Some(Block { line: number, info, text: String::new() });
                }
                (Some(_), Some(_)) => page.blocks.extend(open.take()),
                (Some(block), None) => block.text.extend([line, "\n"]),
                (None, None) => page.prose(number, line),
            }
        }
        if let Some(block) = open {
            bail!("line {}: the block has no end", block.line);
        }
        Ok(page)
    }

    fn prose(&mut self, number: usize, line: &str) {
        if line.starts_with('#') {
            let title = line.trim_start_matches('#').trim();
            self.anchors.push(anchor(title));
        }
        // Text in backticks is not a link.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        let ends = plain.match_indices("](").map(|(at, open)| &plain[at + open.len()..]);
        let targets =
            ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned());
        self.links.extend(targets.map(|target| (number, target)));
    }
}

/// Returns the anchor of a heading as in GitHub and mdBook: lower case, blanks as dashes, without
/// punctuation.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn find(dir: &Path, deep: bool, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() && deep {
            find(&path, deep, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let text = "# A title, `x` and more\nsee [b](b.md#c) and `[no](link)`\n```sh exit=1\n[not](here)\nls\n```\n";
        let page = Page::read("a.md".into(), text).unwrap();
        assert_eq!(page.anchors, ["a-title-x-and-more"]);
        assert_eq!(page.links, [(2, "b.md#c".to_owned())]);
        let [block] = &page.blocks[..] else { panic!("one block") };
        assert_eq!((block.line, block.text.as_str()), (3, "[not](here)\nls\n"));
        assert_eq!(block.info, ["sh", "exit=1"]);
        assert!(Page::read("a.md".into(), "```sh\nls\n").is_err());
    }
}
