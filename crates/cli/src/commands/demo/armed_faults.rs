//! The faults that are armed on the demo's server, as the page lists them. `--chaos` arms faults that no switch of the page
//! shows, so the list comes from the server.

use std::time::Duration;

use embedded_apiserver::ArmedFault;
use serde_json::{Value, json};

/// One fault: its effect, the requests that it applies to, and how many it has affected. `times` limits them, if it is set.
pub(super) fn row(armed: &ArmedFault, by_switch: bool) -> Value {
    let fault = serde_json::to_value(&armed.fault).unwrap_or_default();
    json!({
        "effect": effect(&fault["action"]),
        "requests": requests(&fault["on"]),
        "fired": armed.fired,
        "times": fault["schedule"]["times"],
        "switch": by_switch,
    })
}

/// An action in words. Actions that the demo does not use keep their serialized name.
fn effect(action: &Value) -> String {
    let with_value = || action.as_object()?.iter().next().map(|(name, value)| (name.as_str(), value));
    let (name, value) = with_value().unwrap_or((action.as_str().unwrap_or_default(), &Value::Null));
    match name {
        "delay" => {
            let delay = serde_json::from_value::<Duration>(value.clone()).unwrap_or_default();
            format!("delay of {delay:?}")
        }
        "expired" => "410 Expired".to_owned(),
        "overloaded" => "429 Too Many Requests".to_owned(),
        "status" => format!("{} {}", value["code"], value["reason"].as_str().unwrap_or_default()),
        name if value.is_null() => name.to_owned(),
        name => format!("{name} {value}"),
    }
}

/// The requests that match, such as `watch` or `patch by controller`.
fn requests(on: &Value) -> String {
    let text = |name: &str| on[name].as_str().map(str::to_owned);
    let by = text("userAgent").map(|agent| format!("by {agent}"));
    let parts = ["verb", "resource", "namespace", "name", "path"].map(text).into_iter().chain([by]);
    let parts = parts.flatten().collect::<Vec<_>>();
    if parts.is_empty() { "all".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use embedded_apiserver::{Action, Fault, Match, Server, Verb};

    use super::*;

    #[tokio::test]
    async fn faults_are_described_by_effect_and_requests() {
        let server = Server::builder().without_socket().start().await.unwrap();
        let faults = server.faults();
        let refusal = Action::Status {
            code: 500,
            reason: "InternalError".to_owned(),
            message: String::new(),
            retry_after_seconds: 0,
        };
        let overloaded = Action::Overloaded { retry_after_seconds: 1 };
        faults.arm(Fault::new(Action::Delay(Duration::from_millis(1500))).on(Match::verb(Verb::Watch)));
        faults.arm(Fault::new(overloaded).on(Match::verb(Verb::List).resource("pods")).times(3));
        faults.arm(Fault::new(refusal).on(Match::verb(Verb::Patch).user_agent("controller")));
        faults.arm(Fault::new(Action::Expired));
        faults.arm(Fault::new(Action::CutAfterEvents(2)));
        let rows = faults.armed().iter().map(|armed| row(armed, false)).collect::<Vec<_>>();
        let texts =
            rows.iter().map(|row| (row["effect"].as_str().unwrap(), row["requests"].as_str().unwrap()));
        assert_eq!(
            texts.collect::<Vec<_>>(),
            [
                ("delay of 1.5s", "watch"),
                ("429 Too Many Requests", "list pods"),
                ("500 InternalError", "patch by controller"),
                ("410 Expired", "all"),
                ("cutAfterEvents 2", "all"),
            ]
        );
        assert_eq!((&rows[0]["times"], &rows[1]["times"]), (&Value::Null, &json!(3)));
        server.shutdown().await;
    }
}
