//! Manifests from files, directories and stdin, document by document.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where in the input an object stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    /// From 1, counting documents that hold something; 0 is the file as a whole.
    pub document: usize,
    /// Index in a `List`.
    pub item: Option<usize>,
    /// It stands in a live cluster, whose API server has let it in.
    pub live: bool,
}

impl Place {
    pub fn of_file(file: &str) -> Self {
        Self { file: file.to_owned(), document: 0, item: None, live: false }
    }

    fn of_cluster(object: String) -> Self {
        Self { file: object, document: 0, item: None, live: true }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.file))?;
        if self.document > 0 {
            write!(f, ": document {}", self.document)?;
        }
        Ok(())
    }
}

/// A mistake in the input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub place: Place,
    /// Path of the field, such as `spec.minAvailable`; empty for the document as a whole.
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn new(place: &Place, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.clone(), field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        let field = printable(&self.field);
        match (self.place.item, field.as_ref()) {
            (None, "") => {}
            (None, field) => write!(f, ": {field}")?,
            (Some(item), "") => write!(f, ": items[{item}]")?,
            (Some(item), field) => write!(f, ": items[{item}].{field}")?,
        }
        write!(f, ": {}", printable(&self.message))
    }
}

/// With control characters escaped: what comes from the input must not steer a terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// One object as it was written.
#[derive(Clone, Debug)]
pub struct Document {
    pub place: Place,
    pub value: Value,
}

/// Everything in the input, as far as it can be read.
#[derive(Debug, Default)]
pub struct Input {
    pub documents: Vec<Document>,
    pub problems: Vec<Problem>,
}

impl Input {
    /// `-` is stdin; of a directory, the files that end in `.yaml`, `.yml` or `.json`, in order.
    pub fn read(paths: &[PathBuf]) -> Self {
        let mut input = Self::default();
        for path in paths {
            if path.as_os_str() == "-" {
                let mut text = String::new();
                match std::io::stdin().read_to_string(&mut text) {
                    Ok(_) => input.parse("stdin", &text),
                    Err(error) => input.unreadable("stdin", &error.to_string()),
                }
            } else {
                input.read_path(path);
            }
        }
        input
    }

    pub fn parse(&mut self, file: &str, text: &str) {
        // YAML may begin with a brace too, but hardly with a quoted key in it.
        let mut opening = text.chars().filter(|c| !c.is_whitespace());
        let is_json = opening.next() == Some('{') && opening.next() == Some('"');
        if is_json { self.parse_json(file, text) } else { self.parse_yaml(file, text) }
    }

    /// An object that came from elsewhere, or a list of such.
    pub fn add(&mut self, place: Place, value: Value) {
        let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match value {
            Value::Object(mut list) if is_list && list.contains_key("items") => {
                let Value::Array(items) = list["items"].take() else {
                    let message = "is not a list";
                    return self.problems.push(Problem::new(&place, "items", message));
                };
                for (index, value) in items.into_iter().enumerate() {
                    let place = Place { item: Some(index), ..place.clone() };
                    self.documents.push(Document { place, value });
                }
            }
            value => self.documents.push(Document { place, value }),
        }
    }

    /// Objects of a live cluster, except those that the files define too.
    pub fn add_below(&mut self, objects: Vec<Value>) {
        let given: BTreeSet<Identity> =
            self.documents.iter().map(|document| identity(&document.value)).collect();
        for value in objects {
            let own = identity(&value);
            if !given.contains(&own) {
                let (_, kind, namespace, name) = own;
                let file = format!("cluster: {kind} {namespace}/{name}");
                self.documents.push(Document { place: Place::of_cluster(file), value });
            }
        }
    }

    fn read_path(&mut self, path: &Path) {
        let name = path.display().to_string();
        if path.is_dir() {
            match manifests_in(path) {
                Ok(files) if files.is_empty() => {
                    self.unreadable(&name, "holds no file that ends in .yaml, .yml or .json");
                }
                Ok(files) => files.iter().for_each(|file| self.read_path(file)),
                Err(error) => self.unreadable(&name, &error.to_string()),
            }
            return;
        }
        match std::fs::read_to_string(path) {
            Ok(text) => self.parse(&name, &text),
            Err(error) => self.unreadable(&name, &error.to_string()),
        }
    }

    fn unreadable(&mut self, file: &str, why: &str) {
        let place = Place::of_file(file);
        self.problems.push(Problem::new(&place, "", why));
    }

    fn parse_json(&mut self, file: &str, text: &str) {
        let mut place = Place::of_file(file);
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            place.document += 1;
            match value {
                Ok(value) => self.add(place.clone(), value),
                Err(error) => {
                    self.problems.push(Problem::new(&place, "", error.to_string()));
                    return;
                }
            }
        }
    }

    /// Cut by hand at the lines that begin a document, so that a mistake in one hides no other.
    fn parse_yaml(&mut self, file: &str, text: &str) {
        let mut place = Place::of_file(file);
        for (first_line, document) in documents(text) {
            if document.lines().all(is_blank) {
                continue;
            }
            place.document += 1;
            let options = serde_saphyr::options! { budget: None, with_snippet: false };
            match serde_saphyr::from_str_with_options::<Value>(&document, options) {
                Ok(value) => self.add(place.clone(), value),
                Err(error) => {
                    let line = error.location().map(|at| at.line() + first_line);
                    let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
                    let message = format!("{line}{}", in_short(&error.to_string()));
                    self.problems.push(Problem::new(&place, "", message));
                }
            }
        }
    }
}

/// API group, kind, namespace and name.
type Identity = (String, String, String, String);

fn identity(value: &Value) -> Identity {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&value["apiVersion"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let meta = &value["metadata"];
    (group, text(&value["kind"]), text(&meta["namespace"]), text(&meta["name"]))
}

fn manifests_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_file() && matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The number of lines before each document, and its text.
fn documents(text: &str) -> Vec<(u64, String)> {
    let mut found = vec![(0, String::new())];
    for (line, number) in text.lines().zip(1_u64..) {
        let begins =
            line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with(' '));
        if let Some(rest) = begins {
            // What stands on the marker's own line belongs to the document.
            found.push((number - 1, format!("{rest}\n")));
        } else if let Some((_, document)) = found.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    found
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The parser adds where it was, which we say in our own way, and advice for programmers.
fn in_short(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let cut = [" at line ", ", line ", ", set "].iter().filter_map(|end| first.find(end)).min();
    cut.map_or(first, |cut| &first[..cut]).to_owned()
}
