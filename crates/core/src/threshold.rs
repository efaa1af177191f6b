//! Thresholds to numbers. Both percentages round up, as upstream's do (upstream 1.5).

use crate::model::{BudgetSpec, Threshold};

impl BudgetSpec {
    /// Whether the thresholds mean nothing without the number of expected units.
    pub fn needs_total(&self) -> bool {
        match (&self.max_unavailable, &self.min_available) {
            (Some(_), _) => true,
            (None, Some(min)) => min.needs_total(),
            (None, None) => false,
        }
    }
}

impl Threshold {
    /// The number of units that this threshold means for so many units in total.
    pub(crate) fn of(&self, total: i64) -> Result<i64, String> {
        match self {
            Self::Count(n) => Ok(*n),
            Self::Percent(p) => Ok((p * total + 99).div_euclid(100)),
            Self::Invalid(why) => Err(why.clone()),
        }
    }

    /// Whether the total has to be known.
    fn needs_total(&self) -> bool {
        !matches!(self, Self::Count(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_up() {
        for (percent, total, expected) in [
            (10, 7, 1),
            (40, 3, 2),
            (30, 7, 3),
            (30, 3, 1),
            (28, 11, 4),
            (28, 22, 7),
            (0, 5, 0),
            (100, 5, 5),
            (34, 3, 2),
            (1, 0, 0),
        ] {
            assert_eq!(
                Threshold::Percent(percent).of(total),
                Ok(expected),
                "{percent}% of {total}"
            );
        }
    }
}
