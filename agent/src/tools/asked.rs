//! What the toolbox answers, as a tool's result.

use super::{Context, Done, Failure};
use crate::toolbox::protocol::{Reply, Request};

pub async fn ask_text(cx: &Context, request: Request) -> Result<String, Failure> {
    read_reply(cx.toolbox.ask(request).await?)
}

pub fn read_reply(reply: Reply) -> Result<String, Failure> {
    match reply {
        Reply::Text(text) | Reply::Started { text, .. } => Ok(text),
        Reply::Refused(why) => Err(Failure::Respond(why)),
        Reply::Failed(why) => Err(Failure::Stop(why)),
        other => Err(Failure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

pub async fn ask_done(cx: &Context, request: Request) -> Result<Done, Failure> {
    ask_text(cx, request).await.map(Done::plain)
}
