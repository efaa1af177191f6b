//! `holdfast demo`: what counting replicas changes, shown by two simulated drains of `examples/`.

use std::io;

use crate::page::Page;
use crate::simulate::{self, Report};

const TWO_REPLICAS: Example = Example {
    heading: "1. Two replicas of two pods on one node; at most one replica may be down",
    introduction: "A replica works only while both of its pods do. Two pods are one replica's worth, so \
                   counted in pods the budget says maxUnavailable: 2.",
    file: "examples/two-replicas.yaml",
    manifests: include_str!("../../../examples/two-replicas.yaml"),
    drained: &["node-1"],
};

const LLM_SERVING: Example = Example {
    heading: "2. A model served by ten groups of eight pods; nine groups must answer",
    introduction: "The 80 pods are spread over seven nodes, so each node holds pods of nearly all groups, \
                   and LeaderWorkerSet restarts a whole group when one of its pods goes. Counted in pods, \
                   nine groups are minAvailable: 72.",
    file: "examples/llm-serving.yaml",
    manifests: include_str!("../../../examples/llm-serving.yaml"),
    drained: &["node-1", "node-2"],
};

struct Example {
    heading: &'static str,
    introduction: &'static str,
    file: &'static str,
    manifests: &'static str,
    drained: &'static [&'static str],
}

impl Example {
    fn simulate(&self) -> anyhow::Result<Report> {
        simulate::manifests(self.file, self.manifests, self.drained)
    }

    fn show(&self, page: &mut Page, report: &Report) {
        page.heading(self.heading);
        page.paragraph(self.introduction);
        page.line("");
        page.line(&format!(
            "  holdfast simulate -f {} --drain {} --compare pod",
            self.file,
            self.drained.join(",")
        ));
        page.line("");
        simulate::show(page, report);
    }
}

pub fn run() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = render(simulate::may_colour(&out))?;
    Ok(simulate::print(&mut out, &text)?)
}

fn render(colour: bool) -> anyhow::Result<String> {
    let mut page = Page::new(colour);
    page.title("Holdfast demo: budgets that count pods, and budgets that count replicas");
    page.paragraph(
        "No cluster is touched. The engine that answers evictions in production runs here against a \
         small cluster in memory, on a virtual clock. Denials are quoted as the engine words them; \
         health is counted from the cluster's pods. A pod takes 30 s to end and 30 s to start.",
    );
    TWO_REPLICAS.show(&mut page, &TWO_REPLICAS.simulate()?);
    let report = LLM_SERVING.simulate()?;
    LLM_SERVING.show(&mut page, &report);
    conclude(&mut page, &report);
    Ok(page.into_text())
}

fn conclude(page: &mut Page, report: &Report) {
    let [in_replicas, in_pods] = report.runs.as_slice() else { return };
    let (Some(kept), Some(lost)) = (in_replicas.budgets.first(), in_pods.budgets.first()) else {
        return;
    };
    page.heading("In short");
    page.paragraph(&format!(
        "A budget that counts pods cannot see which pods belong together: {needed} of {total} groups, \
         written down as pods, let the drain leave {low} working. Counted in replicas there were never \
         fewer than {high}. The price is time, {slow} instead of {fast}: one replica moves and comes back \
         before the next one goes.",
        needed = kept.needed.unwrap_or_default(),
        total = kept.expected.unwrap_or_default(),
        low = lost.lowest_healthy,
        high = kept.lowest_healthy,
        slow = in_replicas.outcome.at(),
        fast = in_pods.outcome.at(),
    ));
    page.heading("To try next");
    page.line(
        "  holdfast simulate --help       ask the same of your own manifests, or of your cluster",
    );
    page.line(
        "  holdfast serve --install       decide the evictions of the cluster in your kubeconfig",
    );
    page.line("  budgetScope: Workload          write this into a budget's spec, and drain a node");
}

#[cfg(test)]
mod tests {
    use super::{Page, render};

    #[test]
    fn output_is_as_recorded() {
        insta::assert_snapshot!(render(false).unwrap());
    }

    #[test]
    fn output_fits_a_terminal() {
        let text = render(false).unwrap();
        let unfit: Vec<&str> =
            text.lines().filter(|line| line.len() > 100 || line.ends_with(' ')).collect();
        assert!(unfit.is_empty(), "{unfit:#?}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = render(true).unwrap();
        let plain = Page::CODES.iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(plain, render(false).unwrap());
    }
}
