//! Service account tokens, from request to expiry.

use crate::support;

use std::time::Duration;

use embedded_apiserver::{Clock, Server};
use serde_json::{Value, json};
use support::Session;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SELF_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ROBOT: &str = "system:serviceaccount:default:robot";

impl Session {
    /// Requests a token for the account `robot`.
    async fn token(&self, spec: Value) -> String {
        let request = self.json("POST", &format!("{ACCOUNTS}/robot/token"), json!({"spec": spec})).await;
        request["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The user in a review, or its error.
    async fn reviewed(&self, token: &str) -> Result<String, String> {
        let review = self.json("POST", REVIEWS, json!({"spec": {"token": token}})).await;
        let status = &review["status"];
        match status["authenticated"].as_bool() {
            Some(true) => Ok(status["user"]["username"].as_str().unwrap().to_owned()),
            _ => Err(status["error"].as_str().unwrap().to_owned()),
        }
    }
}

async fn session() -> Session {
    let clock = Clock::starting_at(std::time::UNIX_EPOCH);
    let session = Session::new(Server::builder().without_socket().clock(clock).start().await.unwrap());
    session.json("POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    session
}

#[tokio::test(start_paused = true)]
async fn a_token_expires() {
    let session = session().await;
    let token = session.token(json!({"expirationSeconds": 600})).await;
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(session.reviewed(&token).await, Ok(ROBOT.to_owned()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        session.reviewed(&token).await,
        Err("invalid bearer token, service account token has expired".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_invalid_after_its_account_or_bound_object_is_deleted() {
    let session = session().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": [{"name": "c"}]}});
    session.json("POST", PODS, pod).await;
    let plain = session.token(json!({})).await;
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let bound = session.token(json!({"boundObjectRef": reference})).await;
    assert_eq!(session.reviewed(&bound).await, Ok(ROBOT.to_owned()));
    session.json("DELETE", &format!("{PODS}/p"), json!({})).await;
    let ended = Err("invalid bearer token, service account token has been invalidated".to_owned());
    assert_eq!(session.reviewed(&bound).await, ended);
    assert_eq!(session.reviewed(&plain).await, Ok(ROBOT.to_owned()));
    session.json("DELETE", &format!("{ACCOUNTS}/robot"), json!({})).await;
    assert_eq!(session.reviewed(&plain).await, ended);
    session.json("POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(session.reviewed(&plain).await, ended, "the account of the same name is another one");
}

#[tokio::test(start_paused = true)]
async fn requests_are_attributed_to_the_account_of_their_token() {
    let session = Session::new(Server::builder().without_socket().token("secret").start().await.unwrap());
    let ask = async |bearer: &str, path: &str, body: Value| {
        let bearer = format!("Bearer {bearer}");
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        let answer = session.request("POST", path, &headers, body.to_string().into()).await;
        (answer.code, serde_json::from_slice::<Value>(&answer.body).unwrap())
    };
    ask("secret", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let (_, request) = ask("secret", &format!("{ACCOUNTS}/robot/token"), json!({})).await;
    let token = request["status"]["token"].as_str().unwrap();
    assert_ne!(token, "secret");
    for (bearer, user) in [("secret", "admin"), (token, ROBOT)] {
        let (code, review) = ask(bearer, SELF_REVIEWS, json!({})).await;
        assert_eq!((code, &review["status"]["userInfo"]["username"]), (201, &json!(user)));
        let (_, review) = ask("secret", REVIEWS, json!({"spec": {"token": bearer}})).await;
        assert_eq!(review["status"]["user"]["username"], user);
    }
    let (code, _) = ask("garbage", SELF_REVIEWS, json!({})).await;
    assert_eq!(code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_service_account_token_cannot_access_faults() {
    let server = Server::builder().without_socket().token("secret").admin_endpoint(true);
    let session = Session::new(server.start().await.unwrap());
    let ask = async |bearer: &str, method: &str, path: &str, body: Value| {
        let bearer = format!("Bearer {bearer}");
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        let answer = session.request(method, path, &headers, body.to_string().into()).await;
        (answer.code, serde_json::from_slice::<Value>(&answer.body).unwrap())
    };
    ask("secret", "POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let (_, request) = ask("secret", "POST", &format!("{ACCOUNTS}/robot/token"), json!({})).await;
    let token = request["status"]["token"].as_str().unwrap();
    assert_eq!(ask(token, "GET", PODS, json!(null)).await.0, 200);
    for method in ["GET", "POST", "DELETE"] {
        let (code, status) = ask(token, method, "/faults", json!({"action": "Hang"})).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{method}: {status}");
        let verb = method.to_lowercase();
        assert_eq!(status["message"], format!("forbidden: User \"{ROBOT}\" cannot {verb} path \"/faults\""));
    }
    assert_eq!(ask("secret", "GET", "/faults", json!(null)).await, (200, json!([])));
}
