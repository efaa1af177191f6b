//! Shared code of the cargo-fuzz programs. Each program is one target of `holdfast_server::fuzz`, by its
//! name.

use std::{env, fs, path::Path};

pub use libfuzzer_sys;

use holdfast_server::fuzz::{Target, target};

/// The whole content of a program.
#[macro_export]
macro_rules! target {
    () => {
        $crate::libfuzzer_sys::fuzz_target!(
            init: $crate::plant(env!("CARGO_BIN_NAME")),
            |input: &[u8]| $crate::run(env!("CARGO_BIN_NAME"), input)
        );
    };
}

pub fn run(name: &str, input: &[u8]) {
    let _ = (named(name).run)(input);
}

/// Writes the seeds into the corpus before libFuzzer reads it, so that the seeds are only beside the
/// decoders.
pub fn plant(name: &str) {
    let corpus = env::args().skip(1).find(|arg| Path::new(arg).is_dir());
    let Some(corpus) = corpus else { return };
    for (i, seed) in (named(name).seeds)().iter().enumerate() {
        let file = Path::new(&corpus).join(format!("seed-{i}"));
        fs::write(&file, seed).unwrap_or_else(|error| panic!("write {}: {error}", file.display()));
    }
}

fn named(name: &str) -> &'static Target {
    target(name).unwrap_or_else(|| panic!("no target is called {name}"))
}
