//! Other inputs out of some.

use holdfast_sim::Random;
use serde_json::{Value, json};

fn one_of<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    random.pick(all).expect("there are some")
}

const LENGTH_MAX: usize = 64 * 1024;

/// One of the corpus, changed in one place or in some.
pub fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = one_of(corpus, random).clone();
    // What is JSON mostly stays it: what is not fails in one way.
    let tree: Option<Value> = serde_json::from_slice(&input).ok();
    if let Some(mut tree) = tree.filter(|_| random.below(4) > 0) {
        for _ in 0..=random.below(3) {
            change(&mut tree, random);
        }
        return tree.to_string().into_bytes();
    }
    for _ in 0..=random.below(4) {
        change_bytes(&mut input, corpus, random);
    }
    input.truncate(LENGTH_MAX);
    input
}

const TOKENS: [&[u8]; 16] = [
    b"null",
    b"{}",
    b"[]",
    b"\"",
    b"{",
    b"}",
    b"[[[[[[[[[[[[[[[[",
    b"-1",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"9223372036854775808",
    b"\n",
    b"&a [*a,*a]",
];

fn change_bytes(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(32)).min(input.len());
    match random.below(6) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 => drop(input.splice(at..at, one_of(&TOKENS, random).iter().copied())),
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].repeat(1 + random.below(8));
            drop(input.splice(at..at, again));
        }
        4 => {
            let other = one_of(corpus, random);
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        _ => input.truncate(at),
    }
}

/// Somewhere in the tree.
fn change(tree: &mut Value, random: &mut Random) {
    let inner = random.below(5) > 0;
    match tree {
        Value::Object(fields) if inner && !fields.is_empty() => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = one_of(&keys, random);
            if random.below(10) == 0 {
                fields.remove(key);
            } else if let Some(field) = fields.get_mut(key) {
                change(field, random);
            }
        }
        Value::Array(items) if inner && !items.is_empty() => {
            let i = random.below(items.len());
            match random.below(10) {
                0 => drop(items.remove(i)),
                1 => items.push(items[i].clone()),
                _ => change(&mut items[i], random),
            }
        }
        leaf => *leaf = odd(random),
    }
}

fn odd(random: &mut Random) -> Value {
    let texts = [
        "",
        " ",
        "0",
        "-1",
        "50%",
        "101%",
        "-5%",
        "1e9",
        "1Ki",
        "9999999999999999999Ei",
        ".5m",
        "a/b",
        "In",
        "Exists",
        "True",
        "UPDATE",
        "2026-02-30T00:00:00Z",
        "2026-01-01T00:00:00Z",
        "\u{0}",
        "é\u{202e}",
        "a,b",
        "DELETE,UPDATE",
        "true",
        "{",
        "[\"a\"]",
    ];
    match random.below(10) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!(true),
        4 => json!(one_of(&[0_i64, -1, 1, i64::MIN, i64::MAX, i64::from(i32::MAX) + 1], random)),
        5 => json!(1.5),
        6 => json!("x".repeat(1 + random.below(300))),
        7 => json!({"a": {"b": [1, "2", null]}}),
        _ => json!(one_of(&texts, random)),
    }
}
