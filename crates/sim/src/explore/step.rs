//! Everything that can happen in a small world, one thing at a time.

use std::fmt;
use std::str::FromStr;

/// One step. Numbers are indexes: of an instance, a request, a pod or a budget of the scope, or of a
/// call, an answer or an allowed eviction in the queue that the step is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client sends request `n`.
    Ask(u8),
    /// The API server executes call `n` of an instance. The answer is on its way from then on.
    Call(u8, u8),
    /// Answer `n` reaches its instance.
    Answer(u8, u8),
    /// Answer `n` never reaches its instance, which gives up waiting.
    Lose(u8, u8),
    /// The instance gives up call `n`, which may still reach the API server.
    GiveUp(u8, u8),
    /// A call that its instance gave up, or did not survive, reaches the API server.
    Late(u8),
    /// The next watch event of a kind reaches an instance.
    Event(u8, Watched),
    /// The instance dies.
    Crash(u8),
    /// The instance starts with empty memory, lists and watches.
    Restart(u8),
    /// A pod is deleted, by no eviction.
    Delete(u8),
    /// The controller creates the next pod of the name, which is not ready.
    Create(u8),
    Ready(u8),
    Unready(u8),
    /// The budget gets its other threshold.
    Edit(u8),
    /// The budget is deleted and created again.
    Recreate(u8),
    /// The owner of a replica is scaled up, and its new pods are ready at once.
    ScaleUp(u8),
    /// So much time passes: the `n`-th of the scope's spans.
    Advance(u8),
    /// The API server carries out allowed eviction `n`.
    CarryOut(u8),
    /// The API server refuses allowed eviction `n` after Holdfast allowed it.
    Refuse(u8),
}

/// The kinds that instances watch in these worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    Pod,
    Budget,
    Group,
    Owner,
}

impl Watched {
    pub const ALL: [Self; 4] = [Self::Pod, Self::Budget, Self::Group, Self::Owner];

    fn word(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Budget => "budget",
            Self::Group => "group",
            Self::Owner => "owner",
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(n) => write!(f, "ask:{n}"),
            Self::Call(i, n) => write!(f, "call:{i}.{n}"),
            Self::Answer(i, n) => write!(f, "answer:{i}.{n}"),
            Self::Lose(i, n) => write!(f, "lose:{i}.{n}"),
            Self::GiveUp(i, n) => write!(f, "give-up:{i}.{n}"),
            Self::Late(n) => write!(f, "late:{n}"),
            Self::Event(i, kind) => write!(f, "event:{i}.{kind}"),
            Self::Crash(i) => write!(f, "crash:{i}"),
            Self::Restart(i) => write!(f, "restart:{i}"),
            Self::Delete(n) => write!(f, "delete:{n}"),
            Self::Create(n) => write!(f, "create:{n}"),
            Self::Ready(n) => write!(f, "ready:{n}"),
            Self::Unready(n) => write!(f, "unready:{n}"),
            Self::Edit(n) => write!(f, "edit:{n}"),
            Self::Recreate(n) => write!(f, "recreate:{n}"),
            Self::ScaleUp(n) => write!(f, "scale-up:{n}"),
            Self::Advance(n) => write!(f, "advance:{n}"),
            Self::CarryOut(n) => write!(f, "carry-out:{n}"),
            Self::Refuse(n) => write!(f, "refuse:{n}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: not a step");
        let (word, rest) = text.split_once(':').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u8>().map_err(|_| wrong());
        let pair = || rest.split_once('.').ok_or_else(wrong);
        let two = || pair().and_then(|(i, n)| Ok((number(i)?, number(n)?)));
        Ok(match word {
            "ask" => Self::Ask(number(rest)?),
            "call" => two().map(|(i, n)| Self::Call(i, n))?,
            "answer" => two().map(|(i, n)| Self::Answer(i, n))?,
            "lose" => two().map(|(i, n)| Self::Lose(i, n))?,
            "give-up" => two().map(|(i, n)| Self::GiveUp(i, n))?,
            "late" => Self::Late(number(rest)?),
            "event" => {
                let (instance, kind) = pair()?;
                let kind = Watched::ALL.into_iter().find(|k| k.word() == kind);
                Self::Event(number(instance)?, kind.ok_or_else(wrong)?)
            }
            "crash" => Self::Crash(number(rest)?),
            "restart" => Self::Restart(number(rest)?),
            "delete" => Self::Delete(number(rest)?),
            "create" => Self::Create(number(rest)?),
            "ready" => Self::Ready(number(rest)?),
            "unready" => Self::Unready(number(rest)?),
            "edit" => Self::Edit(number(rest)?),
            "recreate" => Self::Recreate(number(rest)?),
            "scale-up" => Self::ScaleUp(number(rest)?),
            "advance" => Self::Advance(number(rest)?),
            "carry-out" => Self::CarryOut(number(rest)?),
            "refuse" => Self::Refuse(number(rest)?),
            _ => return Err(wrong()),
        })
    }
}

/// Steps in order, as one line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(pub Vec<Step>);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            write!(f, "{}{step}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_reads_as_it_is_written() {
        let text = "ask:0 call:0.1 answer:1.0 lose:0.0 give-up:0.2 late:0 event:1.pod crash:0 \
                    restart:0 delete:3 create:3 ready:3 unready:2 edit:0 recreate:1 scale-up:0 \
                    advance:1 carry-out:0 refuse:0";
        let schedule: Schedule = text.parse().expect("it is a schedule");
        assert_eq!(schedule.to_string(), text);
        assert_eq!(schedule.0.len(), 19);
        assert!("event:1.node".parse::<Step>().is_err());
        assert!("ask".parse::<Step>().is_err());
    }
}
