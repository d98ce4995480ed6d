//! The price of a call where the Repo names one (`pricePerCall`): granted before the call is sent, and then charged on
//! the role's account like a search of the web.

use codebutler_crds::NanoUsd;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_mcp::McpError;
use codebutler_models::bought::BoughtCall;
use codebutler_models::services::ModelServices;

/// Prefix of the names under which costs of servers are counted: none is the name of a model.
const LABEL: &str = "mcp:";

/// Charge for a call that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallCharge {
    /// The server has answered.
    Due,
    /// It is not known whether the server has counted the call.
    Unknown,
    /// The server has not carried the call out.
    Nothing,
}

/// The money that is granted for a call; none for a call without a price.
pub struct PricedCall(Option<Box<BoughtCall>>);

impl PricedCall {
    /// Grants the price of a call of this server. Dropped before it is sent it is taken back.
    ///
    /// # Errors
    /// When a budget has no room for it, or it can't be put on record. People are asked for money then.
    pub async fn grant(
        models: &ModelServices,
        caller: &ProvenCaller,
        spec: &McpServerSpec,
        tool: &str,
    ) -> Result<Self, ApiError> {
        let price = spec.price_per_call.unwrap_or_default();
        if price == NanoUsd::ZERO {
            return Ok(Self(None));
        }
        let label = format!("{LABEL}{}", spec.name);
        let granted = Box::pin(BoughtCall::grant(models, caller, (label.as_str(), price))).await;
        let granted = granted.map_err(|error| {
            ApiError::new(error.code(), format!("`{tool}` was not run: {error}"))
        })?;
        Ok(Self(Some(Box::new(granted))))
    }

    /// Notes that the call is sent now.
    pub fn send(&mut self) {
        if let Some(bought) = &mut self.0 {
            bought.send();
        }
    }

    /// Ends a call that was sent, and returns what was charged. `error`: what came in place of a result.
    pub fn end(
        self,
        models: &ModelServices,
        caller: &ProvenCaller,
        error: Option<&McpError>,
    ) -> NanoUsd {
        let Some(bought) = self.0 else { return NanoUsd::ZERO };
        match judge_charge(error) {
            CallCharge::Due => {
                let price = bought.price();
                bought.settle(models, caller);
                price
            }
            CallCharge::Unknown => {
                bought.end(true);
                NanoUsd::ZERO
            }
            CallCharge::Nothing => {
                bought.end(false);
                NanoUsd::ZERO
            }
        }
    }
}

fn judge_charge(error: Option<&McpError>) -> CallCharge {
    match error {
        None => CallCharge::Due,
        Some(error) if error.is_limit() || error.wants_page() => CallCharge::Nothing,
        Some(error) if error.is_answer() => CallCharge::Due,
        Some(McpError::SignIn { .. } | McpError::Scope { .. } | McpError::Missing(_)) => {
            CallCharge::Nothing
        }
        Some(_) => CallCharge::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_turned_away_costs_nothing_and_what_was_lost_may_have_been_counted() {
        let status = |status| McpError::Status { status, retry_after: None, text: None };
        let refused = McpError::Refused { code: -32_602, message: "no such row".to_owned() };
        let page_first = McpError::Refused { code: -32_042, message: "sign in there".to_owned() };
        for (error, charge) in [
            (None, CallCharge::Due),
            (Some(refused), CallCharge::Due),
            (Some(page_first), CallCharge::Nothing),
            (Some(status(429)), CallCharge::Nothing),
            (Some(status(502)), CallCharge::Unknown),
            (Some(McpError::SignIn { challenge: String::new() }), CallCharge::Nothing),
            (Some(McpError::Missing("resources")), CallCharge::Nothing),
            (Some(McpError::Closed { said: String::new() }), CallCharge::Unknown),
            (Some(McpError::Cancelled("tools/call".to_owned())), CallCharge::Unknown),
        ] {
            assert_eq!(judge_charge(error.as_ref()), charge, "{error:?}");
        }
    }
}
