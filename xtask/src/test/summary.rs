//! Collects the result and the duration of each stage.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Result;

pub struct Summary {
    began: Instant,
    stages: Vec<(&'static str, Duration, bool)>,
    counts: Counts,
}

/// Numbers of tests, as libtest reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Summary {
    pub fn new() -> Self {
        Self { began: Instant::now(), stages: Vec::new(), counts: Counts::default() }
    }

    /// Runs a stage and records its result.
    pub fn time<T>(&mut self, stage: &'static str, run: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("==> {stage}");
        let began = Instant::now();
        let result = run();
        self.stages.push((stage, began.elapsed(), result.is_ok()));
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                eprintln!("error: {stage}: {error:#}");
                None
            }
        }
    }

    /// Records a stage that was not run. It counts as not passed.
    pub fn not_run(&mut self, stage: &str, why: &str) {
        println!("==> {stage}: not run: {why}");
        self.counts.ignored += 1;
    }

    pub fn count(&mut self, counts: Counts) {
        self.counts.passed += counts.passed;
        self.counts.failed += counts.failed;
        self.counts.ignored += counts.ignored;
    }

    pub fn failed(&self) -> bool {
        self.stages.iter().any(|(.., passed)| !passed)
    }

    pub fn print(&self) {
        println!();
        println!("{:<12} {:>8}", "stage", "seconds");
        for (stage, time, passed) in &self.stages {
            let failed = if *passed { "" } else { "  FAILED" };
            println!("{stage:<12} {:>8.1}{failed}", time.as_secs_f64());
        }
        println!("{:<12} {:>8.1}", "all", self.began.elapsed().as_secs_f64());
        println!();
        println!("{}", self.counts);
    }
}

impl Counts {
    /// Adds the numbers of a line like `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    pub fn read(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> =
            result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(n) = pair[0].parse::<usize>() else { continue };
            match pair[1] {
                "passed" => self.passed += n,
                "failed" => self.failed += n,
                "ignored" => self.ignored += n,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} not run", self.ignored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_add_up() {
        let mut counts = Counts::default();
        counts.read("running 4 tests");
        counts.read("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s");
        counts
            .read("test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 9 filtered out");
        assert_eq!(counts, Counts { passed: 5, failed: 5, ignored: 1 });
        assert_eq!(counts.to_string(), "5 passed, 5 failed, 1 not run");
    }
}
