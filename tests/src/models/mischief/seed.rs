//! Random faults from a seed: the same conversation meets the same faults whenever it is played with the same seed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{MischiefKind, MischiefManner, ModelMischief};

/// Most bad answers in a row to the same question.
const IN_A_ROW: u32 = 3;
/// Faults that only a person can remedy: not played unless asked for by name.
const FINAL: [MischiefKind; 10] = [
    MischiefKind::UnknownModel,
    MischiefKind::WrongKey,
    MischiefKind::NoCredit,
    MischiefKind::CreditForLess,
    MischiefKind::Moderated,
    MischiefKind::Guardrail,
    MischiefKind::KeyForbidden,
    MischiefKind::NoToolEndpoints,
    MischiefKind::NoImageEndpoints,
    MischiefKind::DataPolicy,
];

/// Faults played at random, from a seed.
#[derive(Clone, Debug)]
pub struct RandomMischief {
    /// Seed of the random choices.
    pub seed: u64,
    /// Share of answers that go wrong, from 0 to 1.
    pub share: f64,
    /// Kinds of faults to choose from.
    pub kinds: Vec<MischiefKind>,
}

impl RandomMischief {
    /// Random faults of every kind that a team may live through without a person's help.
    #[must_use]
    pub fn new(seed: u64, share: f64) -> Self {
        let kinds = MischiefKind::ALL.into_iter().filter(|kind| !FINAL.contains(kind)).collect();
        Self { seed, share, kinds }
    }

    /// Random faults of every kind.
    #[must_use]
    pub fn of_all_kinds(seed: u64, share: f64) -> Self {
        Self { seed, share, kinds: MischiefKind::ALL.to_vec() }
    }
}

/// Input of the random choice for one answer.
#[derive(Hash)]
pub(crate) struct SeedToss<'a> {
    pub role: &'a str,
    /// Opening text of the conversation.
    pub opening: &'a str,
    pub step: usize,
    /// Number of earlier requests for the step.
    pub time: u32,
}

impl RandomMischief {
    /// Draws the fault of this answer, if any.
    pub(crate) fn toss(&self, toss: &SeedToss<'_>, calls: bool) -> Option<ModelMischief> {
        if toss.time >= IN_A_ROW {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        // Lines with times and ids are skipped: they differ from run to run.
        let spoken = toss.opening.lines().filter(|line| !line.starts_with('['));
        (self.seed, toss.role, toss.step, toss.time).hash(&mut hasher);
        spoken.for_each(|line| line.hash(&mut hasher));
        let drawn = hasher.finish();
        #[allow(clippy::cast_precision_loss)] // a share of 2³²
        let share = (drawn >> 32) as f64 / f64::from(u32::MAX);
        if share >= self.share {
            return None;
        }
        let fits = |kind: &&MischiefKind| match kind.manner() {
            MischiefManner::Clothes => calls,
            MischiefManner::Mention => !calls,
            MischiefManner::Answer | MischiefManner::Error => true,
        };
        let fitting: Vec<&MischiefKind> = self.kinds.iter().filter(fits).collect();
        let count = u64::try_from(fitting.len()).ok().filter(|count| *count > 0)?;
        let chosen = usize::try_from((drawn & u64::from(u32::MAX)) % count).ok()?;
        let waits = matches!(
            fitting[chosen],
            MischiefKind::RateLimited | MischiefKind::Unavailable | MischiefKind::InFlight
        );
        let mischief = ModelMischief::from(*fitting[chosen]);
        Some(if waits { mischief.retry_after(1) } else { mischief })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_the_seeds_and_as_large_as_asked() {
        let count = |seed, share| {
            let random = RandomMischief::new(seed, share);
            let kinds = (0..1000).map(|step| {
                let opening = format!("[message {seed}.{step} from user U1, to you]\n> fix it");
                let toss = SeedToss { role: "coder", opening: &opening, step, time: 0 };
                random.toss(&toss, step % 2 == 0).map(|mischief| mischief.kind)
            });
            kinds.collect::<Vec<_>>()
        };
        assert_eq!(count(7, 0.2), count(7, 0.2));
        assert_ne!(count(7, 0.2), count(8, 0.2));
        let played = count(7, 0.2).into_iter().flatten().count();
        assert!((150..250).contains(&played), "{played}");
        assert!(count(7, 0.0).iter().all(Option::is_none));
        let random = RandomMischief::new(1, 1.0);
        let toss = SeedToss { role: "pm", opening: "", step: 0, time: IN_A_ROW };
        assert!(random.toss(&toss, true).is_none());
    }
}
