//! Label strings as small numbers, counted, so that a label value that nobody uses any more is
//! forgotten (job and revision hashes would otherwise pile up for ever).

use std::collections::BTreeMap;
use std::sync::Arc;

/// An interned string. Its order is the order of first use and must not reach any output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol(u32);

impl Symbol {
    /// Stands for a string that nothing has interned: it equals no symbol of any selector.
    pub(crate) const STRANGER: Self = Self(u32::MAX);
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Interner {
    symbols: BTreeMap<Arc<str>, Symbol>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Slot {
    text: Arc<str>,
    uses: u32,
}

impl Interner {
    pub(crate) fn acquire(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.symbols.get(text) {
            self.slots[symbol.0 as usize].uses += 1;
            return symbol;
        }
        let text: Arc<str> = text.into();
        let slot = Slot { text: text.clone(), uses: 1 };
        let index = if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            index
        } else {
            self.slots.push(slot);
            // More than 2^32 live label strings do not fit into memory.
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 label strings")
        };
        let symbol = Symbol(index);
        self.symbols.insert(text, symbol);
        symbol
    }

    pub(crate) fn release(&mut self, symbol: Symbol) {
        let slot = &mut self.slots[symbol.0 as usize];
        slot.uses -= 1;
        if slot.uses == 0 {
            self.symbols.remove(&slot.text);
            slot.text = Arc::from("");
            self.free.push(symbol.0);
        }
    }

    /// None for a stranger.
    pub(crate) fn text(&self, symbol: Symbol) -> Option<&Arc<str>> {
        self.slots.get(symbol.0 as usize).map(|slot| &slot.text)
    }

    pub(crate) fn lookup(&self, text: &str) -> Symbol {
        self.symbols.get(text).copied().unwrap_or(Symbol::STRANGER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_nobody_uses_are_forgotten() {
        let mut interner = Interner::default();
        let a = interner.acquire("a");
        assert_eq!(interner.acquire("a"), a);
        interner.release(a);
        assert_eq!(interner.lookup("a"), a);
        interner.release(a);
        assert_eq!(interner.lookup("a"), Symbol::STRANGER);
        let b = interner.acquire("b");
        assert_eq!(b, a, "the slot is used again");
    }
}
