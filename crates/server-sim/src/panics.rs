//! A task that panics ends silently in tokio. The simulation notices it.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static FIRST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Forgets panics of earlier runs on this thread.
pub fn forget() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.to_string();
            FIRST.with_borrow_mut(|first| {
                first.get_or_insert(text);
            });
            before(info);
        }));
    });
    FIRST.take();
}

/// The first panic on this thread.
pub fn first() -> Option<String> {
    FIRST.with_borrow(Clone::clone)
}
