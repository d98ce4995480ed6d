//! Recordings of people: understood, shown, corrected, and paid for once.

use codebutler_testbed::models::{ModelScript, ScriptStep};

use crate::support::{Setup, Team};

const WAVE: &[u8] = b"RIFF\x24\0\0\0WAVEfmt ";

/// A recording of so many seconds, as the fake provider counts them.
fn recording(seconds: usize) -> Vec<u8> {
    let mut sound = WAVE.to_vec();
    sound.resize(seconds * 1000, 7);
    sound
}

async fn team_with_an_ear(steps: &[ScriptStep]) -> Team {
    let setup = Setup::new(ModelScript::of("pm", steps.to_vec()));
    setup.role(|role| role.model.audio = Some("scripted/ear".to_owned())).start().await
}

fn spoken(team: &Team, thread: Option<&str>) -> String {
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let sound = recording(20);
    let file = ("voice.m4a", sound.as_slice());
    slack.upload_as(&team.stack.users["ana"], channel, thread, "", file).unwrap().0
}

fn last_prompt(team: &Team) -> String {
    let requests = team.stack.models.requests();
    let mut asked = requests.iter().filter(|request| request.body["messages"].is_array());
    asked.next_back().map(|request| request.body["messages"].to_string()).unwrap_or_default()
}

fn transcriptions(team: &Team) -> usize {
    let requests = team.stack.models.requests();
    requests.iter().filter(|request| request.body["bytes"].is_u64()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speaker_corrects_what_was_understood_before_a_role_acts() {
    let team = team_with_an_ear(&[ScriptStep::say("I fix the label.")]).await;
    let root = spoken(&team, None);
    let shown = team.message(&root, "What I understood").await;
    assert!(shown.shown.contains("fix the total"), "{}", shown.shown);
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    slack.click(&team.stack.users["ana"], channel, &shown.ts, "heard:correct").unwrap();
    team.message(&root, "The next message corrects it").await;
    assert!(last_prompt(&team).is_empty(), "no role acts on it");
    team.says("ana", Some(&root), "No: the label, not the total.");
    team.message(&root, "I fix the label.").await;
    let prompt = last_prompt(&team);
    assert!(prompt.contains("fix the total") && prompt.contains("No: the label"), "{prompt}");
    assert_eq!(transcriptions(&team), 1, "paid once");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_press_has_a_role_go_on_at_once_and_nobodys_does_so_later() {
    let steps = ["One.", "Two."].map(ScriptStep::say);
    let team = team_with_an_ear(&steps).await;
    let root = spoken(&team, None);
    let shown = team.message(&root, "What I understood").await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    slack.click(&team.stack.users["ana"], channel, &shown.ts, "heard:use").unwrap();
    team.message(&root, "Used by").await;
    team.message(&root, "One.").await;
    team.settled(&root, "pm").await;

    spoken(&team, Some(&root));
    team.message(&root, "Two.").await;
    team.message(&root, "taken as it was understood").await;
    assert_eq!(transcriptions(&team), 2, "each was paid once");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_thread_names_the_field() {
    let steps = vec![ScriptStep::say("Please write it.")];
    let setup = Setup::new(ModelScript::of("pm", steps));
    let team = setup.role(|role| role.model.audio = None).start().await;
    let root = spoken(&team, None);
    let told = "Set spec.model.audio of the AgentRole pm";
    team.message(&root, told).await;
    team.message(&root, "Please write it.").await;
    team.settled(&root, "pm").await;
    let times = team.messages(&root).iter().filter(|m| m.shown.contains(told)).count();
    assert_eq!((times, transcriptions(&team)), (1, 0));
    team.stop().await;
}
