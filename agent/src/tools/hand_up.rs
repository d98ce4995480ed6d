//! The tool by which a cheaper model that looks first hands over to the role's own. The loop carries it out.

use serde_json::{Value, json};

/// Name of the hand-over tool.
pub const HAND_UP: &str = "HandUp";

/// Tool specification that the cheaper model is offered.
pub fn hand_up_spec() -> Value {
    json!({
        "type": "function",
        "function": {
            "name": HAND_UP,
            "description": "You take the first look at this conversation and are the quick model of this role. Answer \
                questions about the code and the work, status requests and small talk yourself. Call this as soon as a change \
                has to be planned, something has to be decided, posted or changed, or you are not sure of the \
                answer: a stronger model then goes on with the whole conversation.",
            "parameters": {
                "type": "object",
                "properties": {
                    "why": {
                        "type": "string",
                        "description": "What needs it, in a few words that the people see, such as \"a plan is needed\""
                    }
                },
                "required": ["why"],
                "additionalProperties": false
            }
        }
    })
}
