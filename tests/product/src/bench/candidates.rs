//! The candidates of a comparison: each model in each arm.

use crate::bench_args::arms::BenchArm;
use codebutler_testbed::stack::outside::ModelProvider;

/// A model that is played in an arm of an experiment.
#[derive(Clone, Debug)]
pub(super) struct BenchCandidate {
    pub name: String,
    /// Provider of the model; the script answers if absent.
    pub provider: Option<ModelProvider>,
    /// The arm of an experiment.
    pub arm: BenchArm,
}

/// Each model in each arm, the arms of a model side by side.
#[must_use]
pub(super) fn pair_arms(
    models: &[(String, Option<ModelProvider>)],
    arms: &[BenchArm],
) -> Vec<BenchCandidate> {
    let none = [BenchArm::default()];
    let arms = if arms.is_empty() { &none } else { arms };
    let of_model = |(model, provider): &(String, Option<ModelProvider>)| {
        let (model, provider) = (model.clone(), provider.clone());
        arms.iter().map(move |arm| BenchCandidate {
            name: match arm.name.as_str() {
                "" => model.clone(),
                arm => format!("{model}, {arm}"),
            },
            provider: provider.clone(),
            arm: arm.clone(),
        })
    };
    models.iter().flat_map(of_model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_is_in_each_arm() {
        let models = [("m".to_owned(), None), ("n".to_owned(), None)];
        let arms = ["now", "keys-sorted"].map(|arm| arm.parse().unwrap());
        let names = |arms: &[BenchArm]| {
            let all = pair_arms(&models, arms);
            all.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&arms), ["m, now", "m, keys-sorted", "n, now", "n, keys-sorted"]);
        assert_eq!(names(&[]), ["m", "n"]);
    }
}
