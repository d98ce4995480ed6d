//! Real models: where they are asked, and whether that can work, before anything else is started.

use std::net::IpAddr;
use std::time::Duration;

use codebutler_crds::AgentRole;
use codebutler_crds::model::ModelApi;
use codebutler_models::dialect::ApiDialect;
use codebutler_models::{complaint, verdict};
use serde::Deserialize;

use super::DemoArgs;
use super::fitting::{fit_model, vendor_model};
use codebutler_testbed::stack::outside::ModelProvider;

const OPENROUTER: &str = "https://openrouter.ai/api/v1";
const OPENROUTER_HOST: &str = "openrouter.ai";
/// Timeout of the provider's list of models.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Path at which `OpenRouter` describes a key's rights.
const KEY: &str = "key";
/// Remedies where a provider does not answer.
const START_SERVER: &str = "start that server first, or name another one";
const SEE_NETWORK: &str =
    "check the address and the network; where only a proxy leads out, name it in HTTPS_PROXY";
const ADD_AUTHORITY: &str = "this machine does not know the authority of its certificate, which may be that of your \
    company's proxy: name a file that has it in SSL_CERT_FILE";
/// Models named in a sentence.
const EXAMPLES: usize = 5;

/// An error that keeps real models from being used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// The address is not a URL.
    #[error("CODEBUTLER_MODEL_URL has to look like https://host/v1")]
    Url,
    /// The provider can't be reached.
    #[error("{host} can't be reached ({variable}): {advice}")]
    Unreachable {
        /// Host name of the provider.
        host: String,
        /// Name of the variable that its address or key came from.
        variable: &'static str,
        /// Remedy for the user.
        advice: &'static str,
    },
    /// The provider refuses the key.
    #[error("{host} refuses the key in {variable}: put a valid one there")]
    Key {
        /// Host name of the provider.
        host: String,
        /// Name of the variable that the key came from.
        variable: &'static str,
    },
    /// The provider does not list the wanted models.
    #[error(
        "{host} does not offer {models}: set CODEBUTLER_MODEL to one that it does, such as {offered}"
    )]
    Model {
        /// Host name of the provider.
        host: String,
        /// Models that the roles are to use.
        models: String,
        /// Examples of models that the provider offers.
        offered: String,
        /// All models that the provider offers.
        all: Vec<String>,
    },
}

/// The environment's provider, if it names one.
///
/// # Errors
/// When the address is none.
pub(crate) fn given_provider(args: &DemoArgs) -> Result<Option<AskedProvider>, ProviderError> {
    let set = |value: &Option<String>| value.clone().filter(|text| !text.trim().is_empty());
    let (url, key) = (set(&args.models.url), set(&args.models.key.0));
    let openrouter = set(&args.models.openrouter.0);
    let mut api = None;
    let own = ("CODEBUTLER_MODEL_URL", "CODEBUTLER_MODEL_KEY");
    let router = ("OPENROUTER_API_KEY", "OPENROUTER_API_KEY");
    let (url, key, (variable, key_variable)) = match (url, key, openrouter) {
        (Some(url), Some(key), _) => (url, key, own),
        (Some(url), None, Some(key)) if url_host(&url).as_deref() == Some(OPENROUTER_HOST) => {
            (url, key, (own.0, router.1))
        }
        // Servers on one's own machine want no key, and never somebody else's.
        (Some(url), None, _) => (url, "none".to_owned(), own),
        (None, _, Some(key)) => (OPENROUTER.to_owned(), key, router),
        (None, _, None) => match &args.models.found {
            Some(found) => {
                let key = set(&found.key.0).unwrap_or_else(|| "none".to_owned());
                api = found.api;
                (found.url.clone(), key, (found.variable, found.variable))
            }
            None => return Ok(None),
        },
    };
    let host = url_host(&url).ok_or(ProviderError::Url)?;
    let model = set(&args.models.model.first().cloned());
    let provider = ModelProvider { url, key, model, api };
    Ok(Some(AskedProvider { provider, host, variable, key_variable }))
}

fn url_host(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.host_str().filter(|host| !host.is_empty()).map(str::to_owned)
}

/// A provider that was asked for.
#[derive(Debug)]
pub(crate) struct AskedProvider {
    /// URL and key of the provider.
    pub provider: ModelProvider,
    /// Host name of the provider.
    pub host: String,
    variable: &'static str,
    /// The variable that its key came from, or would.
    key_variable: &'static str,
}

/// True if the server, or a proxy in its place, showed a certificate that is not trusted.
fn tells_certificate(error: &reqwest::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.to_string().contains("certificate") {
            return true;
        }
        source = cause.source();
    }
    false
}

#[derive(Deserialize)]
struct ProviderModels {
    data: Vec<ProviderModel>,
}

#[derive(Deserialize)]
struct ProviderModel {
    id: String,
}

impl AskedProvider {
    /// The variable of the environment that named it.
    pub(crate) const fn variable(&self) -> &'static str {
        self.variable
    }

    /// The same provider with another model.
    #[must_use]
    pub(crate) fn with(&self, model: Option<String>) -> Self {
        let provider = ModelProvider { model, ..self.provider.clone() };
        Self { provider, host: self.host.clone(), ..*self }
    }

    /// The same provider with a model that it has, where none is named and it lacks those of the roles:
    /// the only one, as servers of one's own often have, or the newest of a family that can do the work.
    /// Where its list is not shown, one of the roles' own that comes from there.
    ///
    /// # Errors
    /// A sentence that names the variable to set.
    pub(crate) async fn with_fitting_model(
        self,
        roles: &[AgentRole],
    ) -> Result<Self, ProviderError> {
        if self.provider.model.is_some() || self.host == OPENROUTER_HOST {
            return Ok(self);
        }
        let Some(offered) = self.list().await? else {
            let model = vendor_model(&self.host, roles);
            return Ok(if model.is_some() { self.with(model) } else { self });
        };
        let model = match offered.as_slice() {
            [only] => Some(only.clone()),
            all if self.missing(roles, all).is_empty() => None,
            all => fit_model(all).map(str::to_owned),
        };
        Ok(self.with(model))
    }

    /// Asks for key and models. What it does not answer properly is left to be found out later.
    ///
    /// # Errors
    /// A sentence that names the variable to set.
    pub(crate) async fn check(&self, roles: &[AgentRole]) -> Result<(), ProviderError> {
        // Anybody may see OpenRouter's list; its key has an address of its own.
        if self.host == OPENROUTER_HOST {
            self.get(KEY).await?;
        }
        let Some(offered) = self.list().await? else { return Ok(()) };
        let missing = self.missing(roles, &offered);
        if offered.is_empty() || missing.is_empty() {
            return Ok(());
        }
        let examples = offered[..offered.len().min(EXAMPLES)].join(", ");
        Err(ProviderError::Model {
            host: self.host.clone(),
            models: missing.join(", "),
            offered: examples,
            all: offered,
        })
    }

    /// Lists the provider's models; `None` where it shows no list.
    async fn list(&self) -> Result<Option<Vec<String>>, ProviderError> {
        let Some(answer) = self.get("models").await? else { return Ok(None) };
        let Ok(list) = answer.json::<ProviderModels>().await else { return Ok(None) };
        Ok(Some(list.data.into_iter().map(|model| model.id).collect()))
    }

    fn unreachable(&self) -> ProviderError {
        let advice = if self.is_here() { START_SERVER } else { SEE_NETWORK };
        ProviderError::Unreachable { host: self.host.clone(), variable: self.variable, advice }
    }

    fn distrusted(&self) -> ProviderError {
        ProviderError::Unreachable {
            host: self.host.clone(),
            variable: self.variable,
            advice: ADD_AUTHORITY,
        }
    }

    /// True for a server of this machine, which no proxy knows.
    fn is_here(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    fn dialect(&self) -> ApiDialect {
        if self.provider.api == Some(ModelApi::Anthropic) {
            return ApiDialect::Anthropic;
        }
        url::Url::parse(&self.provider.url).map_or(ApiDialect::Plain, |url| ApiDialect::at(&url))
    }

    async fn get(&self, path: &str) -> Result<Option<reqwest::Response>, ProviderError> {
        let url = format!("{}/{path}", self.provider.url.trim_end_matches('/'));
        let refused =
            || ProviderError::Key { host: self.host.clone(), variable: self.key_variable };
        let dialect = self.dialect();
        let headers = dialect.lookup_headers(&self.provider.key).map_err(|_| refused())?;
        let client = reqwest::Client::builder();
        let client = if self.is_here() { client.no_proxy() } else { client };
        let client = client.build().map_err(|_| self.unreachable())?;
        let request = client.get(url).headers(headers).query(dialect.list_query());
        let answer = request.timeout(TIMEOUT).send().await;
        let answer = answer.map_err(|error| {
            if tells_certificate(&error) { self.distrusted() } else { self.unreachable() }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(Some(answer));
        }
        let body = answer.bytes().await.unwrap_or_default();
        let said = complaint::read_complaint(&body[..body.len().min(complaint::READ)]);
        if verdict::refuses_key(status.as_u16(), &said, path == KEY) {
            return Err(refused());
        }
        Ok(None)
    }

    fn missing(&self, roles: &[AgentRole], offered: &[String]) -> Vec<String> {
        let wanted = |model: &str| !offered.iter().any(|known| known == model);
        if let Some(model) = &self.provider.model {
            return Some(model).filter(|model| wanted(model)).into_iter().cloned().collect();
        }
        let of_roles = roles.iter().map(|role| (&role.spec.role, &role.spec.model.default));
        of_roles
            .filter(|(_, model)| wanted(model))
            .map(|(role, model)| format!("{model} (for the {role})"))
            .collect()
    }
}
