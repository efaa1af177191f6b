//! Makes foreign text safe to print on a terminal.

use std::borrow::Cow;

/// Replaces characters that move the cursor, end the line, or change the direction of the text. Otherwise a
/// user who names a group could change how a denial reads.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    };
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(is_harmful, "\u{FFFD}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_harmful_is_left_and_nothing_else_is_touched() {
        let text = "Gruppe „Größe“ 4 of 4: ok";
        assert!(matches!(printable(text), Cow::Borrowed(_)));
        let hostile = "x\u{1b}[2J\r\nFAKE: allowed\u{9b}1m\u{202e}\u{2066}\u{2028}";
        let clean = printable(hostile);
        assert_eq!(
            clean,
            "x\u{FFFD}[2J\u{FFFD}\u{FFFD}FAKE: allowed\u{FFFD}1m\u{FFFD}\u{FFFD}\u{FFFD}"
        );
    }
}
