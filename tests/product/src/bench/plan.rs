//! The order of trials: models take turns at the same task, so that a busy machine or a slow hour at
//! a provider is everybody's.

use super::results::ResultKey;
use super::task::BenchTask;

/// The trials of a bench in the order in which they are played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BenchPlan {
    pub trials: Vec<PlannedTrial>,
}

/// A trial that has not been played yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedTrial {
    /// Identity of the trial in the results.
    pub key: ResultKey,
    /// Index of the task in the list of tasks.
    pub task: usize,
    /// Index of the model in the list of models.
    pub model: usize,
}

impl BenchPlan {
    /// Each task by each model, `runs` times.
    #[must_use]
    pub(super) fn of(tasks: &[BenchTask], models: &[&str], runs: u32, memory: bool) -> Self {
        let tasks: Vec<(&str, &str)> =
            tasks.iter().map(|task| (task.id.as_str(), task.digest.as_str())).collect();
        let trials = (1..=runs).flat_map(|run| {
            let tasks = &tasks;
            (0..tasks.len()).flat_map(move |task| {
                // Nobody is always first.
                let first = task + run as usize;
                (0..models.len()).map(move |n| {
                    let model = (first + n) % models.len();
                    let (id, digest) = tasks[task];
                    let key = ResultKey {
                        task: id.to_owned(),
                        digest: digest.to_owned(),
                        model: models[model].to_owned(),
                        run,
                        memory,
                    };
                    PlannedTrial { key, task, model }
                })
            })
        });
        Self { trials: trials.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load_all;

    #[test]
    fn models_take_turns_at_the_same_task() {
        let folder = std::path::Path::new(codebutler_testbed::FOLDER).join("bench");
        let tasks: Vec<BenchTask> = load_all(&folder).unwrap().into_iter().take(2).collect();
        let plan = BenchPlan::of(&tasks, &["a", "b"], 2, true);
        let order: Vec<(u32, usize, &str)> =
            plan.trials.iter().map(|t| (t.key.run, t.task, t.key.model.as_str())).collect();
        assert_eq!(
            order,
            [
                (1, 0, "b"),
                (1, 0, "a"),
                (1, 1, "a"),
                (1, 1, "b"),
                (2, 0, "a"),
                (2, 0, "b"),
                (2, 1, "b"),
                (2, 1, "a"),
            ]
        );
    }
}
