//! How a model server is set up.

use codebutler_crds::NanoUsd;

use super::{ModelCard, OtherwiseAnswers, PlayedCatalogue, RandomMischief};
use crate::serving::ListenAddress;

/// How the server is set up.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The one API key that is accepted.
    pub api_key: String,
    /// How to answer where the script does not know how to; else it is a failure of the script.
    pub otherwise: Option<OtherwiseAnswers>,
    /// Where to listen.
    pub at: ListenAddress,
    /// What goes wrong anywhere.
    pub mischief: Option<RandomMischief>,
    /// Whether it refuses what any of the real ones refuses.
    pub strict: bool,
    /// Models on offer besides `scripted/<role>`, or instead of one of those.
    pub offers: Vec<ModelCard>,
    /// Whose list of models it has.
    pub catalogue: PlayedCatalogue,
    /// Whether what the script does not price is priced by the model's card.
    pub metered: bool,
    /// What the account had at the beginning; enough for everything if absent.
    pub credit: Option<NanoUsd>,
    /// How many providers share the calls that name neither a session nor a provider. Each keeps what it
    /// was sent for itself.
    pub providers: u64,
}

impl Default for ModelOptions {
    fn default() -> Self {
        let api_key = format!("sk-or-v1-{}", uuid::Uuid::new_v4().simple());
        Self {
            api_key,
            otherwise: None,
            at: ListenAddress::default(),
            mischief: None,
            strict: true,
            offers: Vec::new(),
            catalogue: PlayedCatalogue::default(),
            metered: false,
            credit: None,
            providers: 1,
        }
    }
}

impl ModelOptions {
    /// The same with one more model.
    #[must_use]
    pub fn offer(mut self, card: ModelCard) -> Self {
        self.offers.push(card);
        self
    }
}
