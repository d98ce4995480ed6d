//! What the toolbox answers, as a tool's result.

use super::{Context, Done, Failure};
use crate::toolbox::protocol::{Reply, Request};

pub async fn text(cx: &Context, request: Request) -> Result<String, Failure> {
    read(cx.toolbox.ask(request).await?)
}

pub fn read(reply: Reply) -> Result<String, Failure> {
    match reply {
        Reply::Text(text) | Reply::Started { text, .. } => Ok(text),
        Reply::Refused(why) => Err(Failure::Respond(why)),
        Reply::Failed(why) => Err(Failure::Stop(why)),
        other => Err(Failure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

pub async fn done(cx: &Context, request: Request) -> Result<Done, Failure> {
    text(cx, request).await.map(Done::plain)
}
