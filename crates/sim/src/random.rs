//! The one source of chance: a seed decides everything that is drawn from it.

/// `splitmix64`: tiny, and good enough to choose what goes wrong next.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `0..end`, which must not be empty.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("usize fits");
        assert!(end > 0, "nothing to draw from");
        usize::try_from(self.draw() % end).expect("smaller than a usize")
    }

    /// Evenly from `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = usize::try_from(high - low + 1).expect("low is not above high");
        low + i64::try_from(self.below(span)).expect("span fits")
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them, if there is any.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[self.below(from.len())]) }
    }

    /// So many letters and digits, as in the names that Kubernetes generates.
    pub fn letters(&mut self, count: usize) -> String {
        const ALL: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..count).map(|_| char::from(ALL[self.below(ALL.len())])).collect()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
