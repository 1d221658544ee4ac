//! Realistic objects for memory benchmarks: pods with random uids, container ids and digests (which compress no better than
//! real ones), config maps, secrets, events, and a custom resource.
#![allow(dead_code, reason = "each benchmark uses a part")]

use kube_wire::internals::ser;
use kube_wire::schema::Schema;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, TypeMeta};
use serde_json::{Value, json};

/// Seeded random numbers: the same objects in every run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: usize) -> Self {
        Self((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            text += &format!("{:016x}", self.next());
        }
        text.truncate(digits);
        text
    }

    pub(crate) fn uid(&mut self) -> String {
        let hex = self.hex(32);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Lines of words, like configuration files.
    pub(crate) fn lines(&mut self, bytes: usize) -> String {
        const WORDS: [&str; 16] = [
            "server", "listen", "upstream", "timeout", "retries", "enabled", "true", "false", "cluster",
            "local", "service", "path", "prefix", "limit", "value", "name",
        ];
        let mut text = String::with_capacity(bytes + 64);
        while text.len() < bytes {
            let drawn = self.next();
            let (one, two) = (WORDS[drawn as usize % 16], WORDS[(drawn >> 8) as usize % 16]);
            text += &format!("{one}.{two} = {}\n", (drawn >> 16) % 10_000);
        }
        text.truncate(bytes);
        text
    }
}

/// The parts that differ between pods, each of constant length, so that new pods can be made by overwriting them.
struct Particulars {
    app: String,
    hash: String,
    suffix: String,
    namespace: String,
    uid: String,
    version: String,
    owner_uid: String,
    tier: &'static str,
    checksum: String,
    /// Image and container id of each container.
    ids: [String; 4],
    node: String,
    host_address: String,
    address: String,
    /// Creation time in seconds; everything else happened within three seconds.
    made: u64,
}

impl Particulars {
    /// Ten pods belong to a replica set, and two thousand replica sets to a namespace.
    fn of(at: usize, version: u64) -> Self {
        let (mut pod, mut owner) = (Chance::new(at), Chance::new(at / 10 + (1 << 40)));
        let drawn = pod.next();
        let octet = |bits: u64| 100 + (drawn >> bits) % 100;
        Self {
            app: format!("app-{:06}", at / 10),
            hash: owner.hex(10),
            suffix: pod.hex(5),
            namespace: format!("team-{:03}", owner.next() % 500),
            uid: pod.uid(),
            version: format!("{:08}", 10_000_000 + version),
            owner_uid: owner.uid(),
            tier: ["front", "cache", "batch"][at / 10 % 3],
            checksum: owner.hex(64),
            ids: std::array::from_fn(|_| pod.hex(64)),
            node: format!("node-{:03}", drawn % 500),
            host_address: format!("192.168.{}.{}", octet(8), octet(16)),
            address: format!("10.{}.{}.{}", octet(24), octet(32), octet(40)),
            made: 1_790_000_000 + owner.next() % 5_000_000 + drawn % 60,
        }
    }

    /// In their encoded form.
    fn in_message(&self) -> Vec<Vec<u8>> {
        let texts = [
            &*self.app,
            &self.hash,
            &self.suffix,
            &self.namespace,
            &self.uid,
            &self.version,
            &self.owner_uid,
            self.tier,
            &self.checksum,
            &self.ids[0],
            &self.ids[1],
            &self.ids[2],
            &self.ids[3],
            &self.node,
            &self.host_address,
            &self.address,
        ];
        let texts = texts.into_iter().map(|text| text.as_bytes().to_vec());
        texts.chain((0..4).map(|later| varint(self.made + later))).collect()
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Makes pods by the million: messages like those of [`running_pod`], made by overwriting the differing parts.
pub(crate) struct Mint {
    message: Vec<u8>,
    /// The offsets of each part.
    places: Vec<Vec<usize>>,
}

impl Mint {
    pub(crate) fn new() -> Self {
        let message = protobuf(&running_pod(0, 0)).expect("pods are built in");
        let places = |bytes: Vec<u8>| {
            let windows = message.windows(bytes.len()).enumerate();
            windows.filter(|(_, window)| *window == bytes).map(|(at, _)| at).collect()
        };
        let places = Particulars::of(0, 0).in_message().into_iter().map(places).collect();
        Self { message, places }
    }

    pub(crate) fn pod(&mut self, at: usize, version: u64) -> &[u8] {
        let particulars = Particulars::of(at, version).in_message();
        for (places, bytes) in self.places.iter().zip(particulars) {
            for place in places {
                self.message[*place..place + bytes.len()].copy_from_slice(&bytes);
            }
        }
        &self.message
    }
}

/// Seconds in the API's format.
fn time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil calendar, counted from March of the year 0.
    let from = days + 719_468;
    let (era, day) = (from / 146_097, from % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, march) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(march <= 2);
    format!("{year}-{march:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// A running pod with two containers, owned by a replica set of ten, without managedFields: 2.5 KB in protobuf.
pub(crate) fn running_pod(at: usize, version: u64) -> Value {
    let Particulars {
        app,
        hash,
        suffix,
        namespace,
        uid,
        version,
        owner_uid,
        tier,
        checksum,
        ids,
        node,
        host_address,
        address,
        made,
    } = Particulars::of(at, version);
    let container = |name: &str, port_name: &str, port: u16| {
        let probe = json!({"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTP"}, "timeoutSeconds": 1,
            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:v1.4.2"),
            "args": ["--config=/etc/shop/config.yaml", format!("--listen=:{port}")],
            "ports": [{"name": port_name, "containerPort": port, "protocol": "TCP"}],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "LOG_LEVEL", "value": "info"},
            ],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/shop", "readOnly": true},
                {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
            ],
            "livenessProbe": probe, "readinessProbe": probe,
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": time(made + 2)});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(condition);
    let status = |name: &str, image_id: &str, container_id: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:v1.4.2"), "ready": true, "started": true,
            "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": time(made + 3)}},
            "imageID": format!("registry.example.com/shop/{name}@sha256:{image_id}"),
            "containerID": format!("containerd://{container_id}"),
        })
    };
    let statuses = [status("main", &ids[0], &ids[1]), status("sidecar", &ids[2], &ids[3])];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{hash}-{suffix}"), "generateName": format!("{app}-{hash}-"),
            "namespace": namespace, "uid": uid, "resourceVersion": version,
            "creationTimestamp": time(made), "generation": 1,
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": hash,
                "tier": tier,
            },
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": checksum},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-{hash}"),
                "uid": owner_uid, "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 30,
            "containers": [container("main", "http", 8080), container("sidecar", "metrics", 15090)],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": app, "defaultMode": 420}},
                {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "serviceAccountName": "default", "serviceAccount": "default", "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
        },
        "status": {
            "phase": "Running", "hostIP": host_address, "podIP": address,
            "podIPs": [{"ip": address}], "startTime": time(made + 1), "qosClass": "Burstable",
            "conditions": conditions,
            "containerStatuses": statuses,
        },
    })
}

/// A config map of 50 KB.
pub(crate) fn config_map(at: usize) -> Value {
    let mut chance = Chance::new(at);
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(at, "settings", &mut chance),
        "data": {"settings.conf": chance.lines(40 << 10), "extra.conf": chance.lines(10 << 10)},
    })
}

/// A secret with a random token.
pub(crate) fn secret(at: usize) -> Value {
    let mut chance = Chance::new(at);
    // Made of valid base64 characters.
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata(at, "token", &mut chance), "type": "Opaque",
        "data": {"token": chance.hex(512), "username": "c2hvcC11c2Vy"},
    })
}

/// An event of a pod.
pub(crate) fn event(at: usize) -> Value {
    let mut chance = Chance::new(at);
    let pod = format!("app-{}-{}-{}", at / 10, chance.hex(10), chance.hex(5));
    let reason = ["Scheduled", "Pulled", "Created", "Started"][at % 4];
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "name": format!("{pod}.{}", chance.hex(16)), "namespace": format!("team-{}", at / 10 % 50),
            "uid": chance.uid(), "resourceVersion": (1000 + at).to_string(), "creationTimestamp": "2026-11-15T10:00:00Z",
        },
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": format!("team-{}", at / 10 % 50),
            "uid": chance.uid(), "resourceVersion": (900 + at).to_string(), "fieldPath": "spec.containers{main}"},
        "reason": reason, "message": format!("{reason} container main of pod {pod}"), "type": "Normal", "count": 1,
        "source": {"component": "kubelet", "host": format!("node-{}", at % 500)},
        "firstTimestamp": "2026-11-15T10:00:00Z", "lastTimestamp": "2026-11-15T10:00:00Z",
        "reportingComponent": "kubelet", "reportingInstance": format!("node-{}", at % 500),
    })
}

/// A custom resource: a certificate of a well-known controller.
pub(crate) fn certificate(at: usize) -> Value {
    let mut chance = Chance::new(at);
    let host = format!("app-{at}.shop.example.com");
    json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata(at, "certificate", &mut chance),
        "spec": {
            "commonName": host, "dnsNames": [host, format!("www.{host}")], "secretName": format!("app-{at}-tls"),
            "issuerRef": {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "letsencrypt"},
            "privateKey": {"algorithm": "RSA", "encoding": "PKCS1", "size": 2048}, "usages": ["digital signature", "key encipherment"],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1,
                "message": "Certificate is up to date and has not expired", "lastTransitionTime": "2026-10-01T10:00:00Z"}],
            "notBefore": "2026-10-01T09:00:00Z", "notAfter": "2026-12-30T09:00:00Z", "renewalTime": "2026-11-30T09:00:00Z",
            "revision": 1 + at % 7,
        },
    })
}

fn metadata(at: usize, what: &str, chance: &mut Chance) -> Value {
    json!({
        "name": format!("{what}-{at}"), "namespace": format!("team-{}", at % 50), "uid": chance.uid(), "generation": 1,
        "resourceVersion": (1000 + at).to_string(), "creationTimestamp": "2026-10-01T10:00:00Z",
        "labels": {"app.kubernetes.io/name": format!("app-{}", at / 10), "app.kubernetes.io/managed-by": "Helm"},
    })
}

/// Returns objects as a source would: in protobuf for built-in kinds, in JSON otherwise.
pub(crate) struct Reader(ObjectReader);

impl Reader {
    pub(crate) fn new() -> Self {
        Self(ObjectReader::new(Projection::default(), Limits::default()).in_blocks())
    }

    pub(crate) fn read(&mut self, value: &Value) -> RawObject {
        let text = |member: &str| value[member].as_str().expect("an object has a type").to_owned();
        let type_meta = TypeMeta::new(&text("apiVersion"), &text("kind"));
        match protobuf(value) {
            Some(message) => self.0.read(&message, Encoding::Protobuf, Some(&type_meta)),
            None => self.0.read(value.to_string().as_bytes(), Encoding::Json, None),
        }
        .expect("the object is readable")
    }

    pub(crate) fn read_json(&mut self, value: &Value) -> RawObject {
        self.0.read(value.to_string().as_bytes(), Encoding::Json, None).expect("the object is readable")
    }
}

/// The message of an object; `None` if its kind is not built in.
pub(crate) fn protobuf(value: &Value) -> Option<Vec<u8>> {
    let message = Schema::builtin().kind(value["apiVersion"].as_str()?, value["kind"].as_str()?)?;
    Some(ser::to_vec(value, message).expect("it fits its kind"))
}
