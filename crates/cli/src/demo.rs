//! `holdfast demo`: what counting replicas changes, shown without a cluster.
//!
//! The engine is the one that serves; the cluster around it is `holdfast-sim` on a virtual clock.
//! Every number that is printed is counted from that cluster's objects, not from the engine.

use std::io::{self, IsTerminal, Write};

mod job;
mod page;
mod pair;
mod timeline;

use page::{Page, clock};

/// Print to stdout, in colour if that is a terminal and `NO_COLOR` is unset.
pub fn run() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let text = render(out.is_terminal() && !no_colour);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `holdfast demo | head` is fine.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn render(colour: bool) -> String {
    let mut page = Page::new(colour);
    page.title("Holdfast demo: a budget that counts pods, and one that counts replicas");
    page.paragraph(
        "No cluster is touched. The engine that answers evictions in production runs here against a \
         small cluster in memory, on a virtual clock. Denials are quoted as the engine words them; \
         health is counted from the cluster's pods.",
    );
    pair::show(&mut page);
    let (in_pods, in_replicas) = job::show(&mut page);
    conclude(&mut page, &in_pods, &in_replicas);
    page.into_text()
}

fn conclude(page: &mut Page, in_pods: &job::Outcome, in_replicas: &job::Outcome) {
    page.heading("In short");
    page.paragraph(&format!(
        "A budget that counts pods cannot see which pods belong together: {wanted} of {total} \
         replicas, written down as pods, let the drain leave {low} replicas working. Counted in \
         replicas there were never fewer than {kept}. The price is time, {slow} instead of {fast}: \
         one replica moves and comes back before the next one goes.",
        wanted = job::WANTED,
        total = job::REPLICAS,
        low = in_pods.lowest,
        kept = in_replicas.lowest,
        slow = clock(in_replicas.took),
        fast = clock(in_pods.took),
    ));
    page.heading("To try next");
    page.line(
        "  holdfast serve --install   decide the evictions of the cluster in your kubeconfig",
    );
    page.line(
        "  budgetScope: Workload      then write this into a budget's spec, and drain a node",
    );
}

#[cfg(test)]
mod tests {
    use super::{Page, render};

    #[test]
    fn output_is_as_recorded() {
        insta::assert_snapshot!(render(false));
    }

    #[test]
    fn output_fits_a_terminal() {
        let text = render(false);
        let unfit: Vec<&str> =
            text.lines().filter(|line| line.len() > 100 || line.ends_with(' ')).collect();
        assert!(unfit.is_empty(), "{unfit:#?}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = render(true);
        let plain = Page::CODES.iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(plain, render(false));
    }
}
