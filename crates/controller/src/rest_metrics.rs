//! Metrics of requests to API servers, with client-go's names, so existing dashboards work.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tower::service_fn;

type RequestLabels = [(&'static str, String); 3];
type VerbLabels = [(&'static str, String); 2];
type Histograms = Family<VerbLabels, Histogram, fn() -> Histogram>;

/// Metrics of requests to API servers, in a registry that you pass in.
///
/// | metric | labels | |
/// |---|---|---|
/// | `rest_client_requests_total` | `code`, `method`, `host` | requests by HTTP status code; `<error>` if there was no response |
/// | `rest_client_request_duration_seconds` | `verb`, `host` | time until the head of the response |
/// | `rest_client_request_size_bytes` | `verb`, `host` | body of a request that has one |
/// | `rest_client_response_size_bytes` | `verb`, `host` | body of a response, as far as it was read; not of watches, as in client-go |
///
/// The other metrics of client-go are omitted. Clients have no rate limiter (`rate_limiter_duration_seconds`) and, over a `Cluster`, do
/// not retry (`request_retries_total`). Name resolution, transports and credential plugins are below the layer that counts.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::{Cluster, Informer};
/// # use kube_informer_controller::RestMetrics;
/// # use prometheus_client::registry::Registry;
/// # async fn example(config: kube_client::Config) -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = Registry::default();
/// let metrics = RestMetrics::register(&mut registry);
/// let host = config.cluster_url.host().unwrap_or_default().to_owned();
/// // For informers, controllers and every `Api`.
/// let client = metrics.client(Cluster::from_config(config)?, &host);
/// let pods = Informer::<Pod>::builder(client).start()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RestMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Histograms,
    request_sizes: Histograms,
    response_sizes: Histograms,
}

/// The code of a request without a response, as in client-go.
const NO_RESPONSE: &str = "<error>";

impl RestMetrics {
    /// Adds the metrics to a registry. Call it once per registry.
    pub fn register(registry: &mut Registry) -> Self {
        // client-go's buckets.
        let times: fn() -> Histogram =
            || Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);
        // From 64 B to 16 MiB, as in client-go.
        let sizes: fn() -> Histogram =
            || Histogram::new([6, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24].map(|power| f64::from(1 << power)));
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(times),
            request_sizes: Family::new_with_constructor(sizes),
            response_sizes: Family::new_with_constructor(sizes),
        };
        let registry = registry.sub_registry_with_prefix("rest_client");
        let help = "Requests by status code, method and host";
        registry.register("requests", help, metrics.requests.clone());
        let help = "Time until the response, by verb and host";
        registry.register("request_duration_seconds", help, metrics.durations.clone());
        let help = "Size of request bodies, by verb and host";
        registry.register("request_size_bytes", help, metrics.request_sizes.clone());
        let help = "Size of response bodies, by verb and host";
        registry.register("response_size_bytes", help, metrics.response_sizes.clone());
        metrics
    }

    /// A client that sends its requests through `client` and counts them. `host` is the label of the server: use few values.
    pub fn client(&self, client: impl Into<Client>, host: &str) -> Client {
        let client = client.into();
        let namespace = client.default_namespace().to_owned();
        let (metrics, host) = (self.clone(), Arc::<str>::from(host));
        let counting = service_fn(move |request: Request<Body>| {
            let (client, metrics, host) = (client.clone(), metrics.clone(), host.clone());
            async move {
                let (verb, began) = (request.method().to_string(), Instant::now());
                let is_sized = !is_watch(&request);
                let sent = request.body().size_hint().exact().filter(|bytes| *bytes > 0);
                let response = client.send(request).await;
                let code = response.as_ref().map(|response| response.status());
                let code = code.as_ref().map_or(NO_RESPONSE, |code| code.as_str());
                let labels = metrics.count(&verb, &host, code, began);
                if let Some(sent) = sent {
                    metrics.request_sizes.get_or_create(&labels).observe(sent as f64);
                }
                let sizes = is_sized.then(|| metrics.response_sizes.get_or_create(&labels).clone());
                response.map(|response| sized(response, sizes))
            }
        });
        Client::new(counting, namespace)
    }

    /// Counts a request. Returns the labels of its histograms.
    fn count(&self, method: &str, host: &str, code: &str, began: Instant) -> VerbLabels {
        let label = |name, value: &str| (name, value.to_owned());
        let labels = [label("code", code), label("method", method), label("host", host)];
        self.requests.get_or_create(&labels).inc();
        let labels = [label("verb", method), label("host", host)];
        self.durations.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
        labels
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

/// Reports the size of a response's body when the body is read to its end or dropped.
fn sized(
    response: Response<Body>,
    sizes: Option<Histogram>,
) -> Response<impl HttpBody<Data = Bytes, Error = kube_client::Error>> {
    let mut read = ReadBytes { bytes: 0, sizes };
    response
        .map(|body| body.inspect_frame(move |frame| read.add(frame.data_ref().map_or(0, |data| data.len()))))
}

/// How much of a body was read so far.
struct ReadBytes {
    bytes: usize,
    sizes: Option<Histogram>,
}

impl ReadBytes {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        self.sizes.iter().for_each(|sizes| sizes.observe(self.bytes as f64));
    }
}
