//! Samples and their statistics.

/// Latencies in milliseconds.
#[derive(Debug, Default, Clone)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    pub fn push(&mut self, took: std::time::Duration) {
        self.0.push(took.as_secs_f64() * 1000.0);
    }

    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.0, percent)
    }
}

/// Returns the smallest value that this percentage of the values does not exceed, or 0 without values.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

pub fn min(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut latencies = Latencies::default();
        assert!(latencies.percentile(99).abs() < f64::EPSILON);
        for ms in (1..=200).rev() {
            latencies.push(Duration::from_millis(ms));
        }
        assert!((latencies.percentile(50) - 100.0).abs() < 1e-9);
        assert!((latencies.percentile(99) - 198.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((median(&[4.0, 1.0, 3.0]) - 3.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
    }
}
