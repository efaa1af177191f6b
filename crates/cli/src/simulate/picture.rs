//! The picture: budgets, replicas and nodes over time, as inline SVG with hover titles.
//!
//! ```text
//!   budget     ▔▔▔\____/▔▔▔   healthy units, and a dashed line at what is needed
//!   replica 0  ───███──────   a tall bar where it is down
//!   node-1     |▒▒▒▒▒|        ticks where pods were evicted
//!              0:00   1:00
//! ```

use std::fmt::Write as _;

use super::report::{BudgetRun, Lane, NodeRun, Outcome, Run, Time};

/// More rows than a person looks at are left out, those that were never disturbed first.
const LANES_MAX: usize = 100;
const NODES_MAX: usize = 30;

const ROW: f64 = 19.0;
const BUDGET_HEIGHT: f64 = 64.0;
/// Width of one, about.
const LETTER: f64 = 6.3;

/// The budgets are named by their indices; `end` is that of the time axis.
pub fn draw(run: &Run, budgets: &[usize], end: Time, narrow: bool) -> String {
    let width = if narrow { 640.0 } else { 1100.0 };
    let lanes = lanes(run);
    let longest = lanes.iter().map(|lane| lane.name.len());
    let longest = longest.chain(run.nodes.iter().map(|node| node.name.len())).max().unwrap_or(8);
    let letters = longest.clamp(8, if narrow { 30 } else { 50 });
    let gutter = float(letters) * LETTER + 12.0;
    let mut picture = Picture {
        svg: String::new(),
        y: 4.0,
        left: gutter,
        letters,
        width: width - gutter - 26.0,
        end: end.0.as_secs_f64().max(1.0),
    };
    for index in budgets {
        picture.budget(&run.budgets[*index]);
    }
    picture.heading(if run.replicas.is_empty() { "Workloads" } else { "Replicas" });
    for lane in &lanes {
        picture.lane(lane);
    }
    let left_out = run.replicas.len() + run.pod_sets.len() - lanes.len();
    if left_out > 0 {
        picture.remark(&format!("and {left_out} more that were disturbed less"));
    }
    picture.y += 6.0;
    picture.heading("Nodes");
    for node in run.nodes.iter().take(NODES_MAX) {
        picture.node(node, run);
    }
    if run.nodes.len() > NODES_MAX {
        picture.remark(&format!("and {} more nodes", run.nodes.len() - NODES_MAX));
    }
    picture.finish(run, width)
}

/// Disturbed ones before others, in the order of the report.
fn lanes(run: &Run) -> Vec<&Lane> {
    let all = || run.replicas.iter().chain(&run.pod_sets);
    if all().count() <= LANES_MAX {
        return all().collect();
    }
    let is_disturbed = |lane: &&Lane| lane.states.len() > 1 || !lane.down_seconds.0.is_zero();
    let disturbed = all().filter(is_disturbed);
    let others = all().filter(|lane| !is_disturbed(lane));
    disturbed.chain(others).take(LANES_MAX).collect()
}

struct Picture {
    svg: String,
    /// The top of the next row.
    y: f64,
    left: f64,
    /// How many fit to the left of that.
    letters: usize,
    width: f64,
    /// Of the time axis, in seconds.
    end: f64,
}

impl Picture {
    fn x(&self, time: Time) -> f64 {
        self.left + time.0.as_secs_f64().min(self.end) / self.end * self.width
    }

    /// The last state of all lasts: beside a longer run, to the end of the axis.
    fn span(&self, from: Time, to: Time, is_last: bool) -> (f64, f64) {
        let to = if is_last { self.left + self.width } else { self.x(to) };
        (self.x(from), to)
    }

    fn budget(&mut self, budget: &BudgetRun) {
        let unit = if budget.counts == "Replicas" { "replicas" } else { "pods" };
        self.heading(&format!("{}: healthy {unit}", budget.name));
        let (top, bottom) = (self.y + 4.0, self.y + BUDGET_HEIGHT);
        let highest = budget.states.iter().map(|level| level.healthy).max().unwrap_or_default();
        let most = highest.max(budget.expected.unwrap_or_default()).max(1);
        let height = |n: i64| float_i(n) / float_i(most) * (bottom - top);
        for (index, level) in budget.states.iter().enumerate() {
            let is_last = index + 1 == budget.states.len();
            let (from, to) = self.span(level.from_seconds, level.to_seconds, is_last);
            let short = budget.needed.is_some_and(|needed| level.healthy < needed);
            let class = if short { "down" } else { "up" };
            let needed = budget.needed.map_or("an unknown number".to_owned(), |n| n.to_string());
            let title = format!(
                "{} to {}: {} healthy, {needed} needed",
                level.from_seconds, level.to_seconds, level.healthy
            );
            let tall = height(level.healthy).max(1.0);
            self.rect(class, (from, bottom - tall), (to - from, tall), &title);
        }
        if let Some((needed, expected)) = budget.needed.zip(budget.expected) {
            let y = bottom - height(needed);
            self.line("need", (self.left, y), (self.left + self.width, y));
            self.label(y + 4.0, &format!("{needed} of {expected}"));
        }
        self.line("grid", (self.left, bottom), (self.left + self.width, bottom));
        self.y = bottom + 8.0;
    }

    fn lane(&mut self, lane: &Lane) {
        let is_replica = lane.needed.is_some();
        for (index, state) in lane.states.iter().enumerate() {
            let is_last = index + 1 == lane.states.len();
            let (from, to) = self.span(state.from_seconds, state.to_seconds, is_last);
            let whole = state.working >= lane.pods;
            let class = match (state.healthy, whole) {
                (Some(true) | None, true) => "up",
                (Some(false), _) if is_replica || state.working == 0 => "down",
                _ => "less",
            };
            let tall = if class == "down" { ROW - 4.0 } else { 6.0 };
            let word = match state.healthy {
                None => "whether it is up cannot be told",
                Some(_) if class == "down" => "down",
                Some(_) => "up",
            };
            let time = if is_last && lane.stays_down {
                format!("from {}, does not come back", state.from_seconds)
            } else {
                format!("{} to {}", state.from_seconds, state.to_seconds)
            };
            let title = format!(
                "{}, {time}: {word}, {} of {} pods work{}",
                lane.name,
                state.working,
                lane.pods,
                lane.needed.map(|needed| format!(", {needed} needed")).unwrap_or_default()
            );
            let y = self.y + (ROW - tall) / 2.0;
            // What lasts a moment is still to be seen.
            self.rect(class, (from, y), ((to - from).max(1.0), tall), &title);
        }
        self.label(self.y + ROW / 2.0 + 4.0, &lane.name);
        self.y += ROW;
    }

    fn node(&mut self, node: &NodeRun, run: &Run) {
        let began = node.began_seconds.or(node.empty_seconds);
        if let Some(began) = began {
            let until = node.empty_seconds.unwrap_or(run.end_seconds);
            let (from, to) = (self.x(began), self.x(until));
            let state = match node.empty_seconds {
                Some(at) => format!("empty after {at}"),
                None => format!("never empty, {} pods are left", node.pods_left),
            };
            let title = format!("{}: {} pods evicted, {state}", node.name, node.pods_evicted);
            self.rect("node", (from, self.y + 4.0), ((to - from).max(2.0), ROW - 8.0), &title);
        }
        for moment in &run.timeline {
            let here = moment.nodes.contains(&node.name) && !moment.granted.is_empty();
            if here {
                let x = self.x(moment.at_seconds);
                let _ = write!(
                    self.svg,
                    "<g><title>{}: evicted {}</title>",
                    moment.at_seconds,
                    escape(&super::text::some_of(&moment.granted))
                );
                self.line("tick", (x, self.y + 2.0), (x, self.y + ROW - 2.0));
                self.svg.push_str("</g>\n");
            }
        }
        self.label(self.y + ROW / 2.0 + 4.0, &node.name);
        self.y += ROW;
    }

    fn finish(mut self, run: &Run, width: f64) -> String {
        let (bottom, mut ticks) = (self.y + 6.0, String::new());
        std::mem::swap(&mut ticks, &mut self.svg);
        for seconds in marks(self.end) {
            let time = Time(std::time::Duration::from_secs(seconds));
            let x = self.x(time);
            self.line("grid", (x, 0.0), (x, bottom));
            let _ = writeln!(
                self.svg,
                "<text class=\"faint\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{time}</text>",
                bottom + 13.0
            );
        }
        let (at, word) = match &run.outcome {
            Outcome::Finished { at_seconds } => (*at_seconds, "nodes empty"),
            Outcome::Blocked { at_seconds } => (*at_seconds, "blocked"),
        };
        let x = self.x(at);
        if !run.outcome.is_finished() {
            let wide = self.left + self.width - x;
            self.rect("blocked", (x, 0.0), (wide, bottom), "nothing can change any more");
        }
        self.line("end", (x, 0.0), (x, bottom));
        let _ = writeln!(
            self.svg,
            "<text class=\"faint\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{word} {at}</text>",
            bottom + 27.0
        );
        format!(
            "<svg viewBox=\"0 0 {width:.0} {:.0}\" role=\"img\" aria-label=\"Replicas over time\">\n{}{ticks}</svg>\n",
            bottom + 34.0,
            self.svg
        )
    }

    fn heading(&mut self, text: &str) {
        let _ = writeln!(
            self.svg,
            "<text class=\"head\" x=\"0\" y=\"{:.1}\">{}</text>",
            self.y + 12.0,
            escape(text)
        );
        self.y += 20.0;
    }

    fn remark(&mut self, text: &str) {
        let _ = writeln!(
            self.svg,
            "<text class=\"faint\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            self.left,
            self.y + 13.0,
            escape(text)
        );
        self.y += ROW;
    }

    /// To the left, cut to what fits; the whole of it is in the title.
    fn label(&mut self, y: f64, text: &str) {
        let too_long = text.chars().count().saturating_sub(self.letters);
        let fits = if too_long == 0 {
            text.to_owned()
        } else {
            // The end of a name tells it from its neighbours.
            format!("…{}", text.chars().skip(too_long + 1).collect::<String>())
        };
        let _ = writeln!(
            self.svg,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            self.left - 6.0,
            escape(&fits),
            escape(text)
        );
    }

    fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        let _ = writeln!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\">\
             <title>{}</title></rect>",
            escape(title)
        );
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.svg,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }
}

/// Times to write under the axis, in seconds: round, and not more than fit.
fn marks(end: f64) -> impl Iterator<Item = u64> {
    const STEPS: [u32; 14] = [1, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400];
    let fits = |step: &u32| end / f64::from(*step) <= 9.0;
    let step = STEPS.into_iter().find(fits).unwrap_or(86_400);
    (0..)
        .map(move |n| n * u64::from(step))
        .take_while(move |at| u32::try_from(*at).is_ok_and(|at| f64::from(at) <= end))
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn float(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn float_i(n: i64) -> f64 {
    f64::from(i32::try_from(n).unwrap_or(i32::MAX))
}
