//! Options of a model server.

use codebutler_crds::NanoUsd;

use super::{ModelCard, OtherwiseAnswers, PlayedCatalogue, RandomMischief, SearchedPage};
use crate::serving::ListenAddress;

/// Options of a model server.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The one API key that is accepted.
    pub api_key: String,
    /// Answers for conversations that leave the script; without them, leaving it is a failure of the script.
    pub otherwise: Option<OtherwiseAnswers>,
    /// Address that the server listens on.
    pub at: ListenAddress,
    /// Random faults in any conversation.
    pub mischief: Option<RandomMischief>,
    /// True if it refuses what any of the real ones refuses.
    pub strict: bool,
    /// Models on offer besides `scripted/<role>`, or instead of one of those.
    pub offers: Vec<ModelCard>,
    /// Provider whose list of models it serves.
    pub catalogue: PlayedCatalogue,
    /// True if calls without a price in the script are priced by the model's card.
    pub metered: bool,
    /// Credit of the account at the beginning; enough for everything if absent.
    pub credit: Option<NanoUsd>,
    /// Pages that its search of the web finds.
    pub pages: Vec<SearchedPage>,
    /// Number of providers that share the calls which name neither a session nor a provider. Each has a prompt cache
    /// of its own.
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
            pages: Vec::new(),
            providers: 1,
        }
    }
}

impl ModelOptions {
    /// The same options with one more model on offer.
    #[must_use]
    pub fn offer(mut self, card: ModelCard) -> Self {
        self.offers.push(card);
        self
    }
}
