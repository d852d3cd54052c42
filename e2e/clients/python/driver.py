"""Drives an API server with the library that Python programs use, and says each thing that went well.

The server is the one of KUBECONFIG, the definition of the objects is in the file that DEFINITION names.
"""

import os

import yaml
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "default"
GROUP = ("example.com", "v1")
SECONDS = 60


def gizmo(name, size, **labels):
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": metadata, "spec": {"size": size}}


def refused(status, call, *arguments, **named):
    try:
        answer = call(*arguments, **named)
    except ApiException as error:
        assert error.status == status, error
        return
    raise AssertionError(f"it is not refused with {status}: {answer}")


def definition(connection):
    definitions = client.ApiextensionsV1Api(connection)
    with open(os.environ["DEFINITION"], encoding="utf-8") as file:
        definitions.create_custom_resource_definition(yaml.safe_load(file))
    events = watch.Watch()
    for event in events.stream(
        definitions.list_custom_resource_definition,
        field_selector="metadata.name=gizmos.example.com",
        timeout_seconds=SECONDS,
    ):
        conditions = event["object"].status.conditions or []
        if any(one.type == "Established" and one.status == "True" for one in conditions):
            events.stop()
            return
    raise AssertionError("the definition is not established")


def discovery(connection):
    resources = client.CustomObjectsApi(connection).get_api_resources(*GROUP)
    assert {"gizmos", "gizmos/status", "gizmos/scale"} <= {one.name for one in resources.resources}, resources
    assert client.VersionApi(connection).get_code().major == "1"
    found = dynamic.DynamicClient(connection).resources.get(api_version="example.com/v1", kind="Gizmo")
    assert found.name == "gizmos" and found.namespaced, found


def lists(connection):
    gizmos = client.CustomObjectsApi(connection)
    for index in range(5):
        body = gizmo(f"p-{index}", index, parity="odd" if index % 2 else "even")
        made = gizmos.create_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", body)
        assert made["spec"]["colour"] == "grey", made
    refused(422, gizmos.create_namespaced_custom_object, *GROUP, NAMESPACE, "gizmos", gizmo("bad", -1))
    refused(409, gizmos.create_namespaced_custom_object, *GROUP, NAMESPACE, "gizmos", gizmo("p-1", 1))
    refused(404, gizmos.get_namespaced_custom_object, *GROUP, NAMESPACE, "gizmos", "none")
    for selector, wanted in [("parity=odd", 2), ("parity!=odd", 3), ("parity in (odd,even)", 5), ("!parity", 0)]:
        found = gizmos.list_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", label_selector=selector)
        assert len(found["items"]) == wanted, (selector, found)
    page = gizmos.list_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", limit=2)
    after = page["metadata"]["continue"]
    rest = gizmos.list_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", _continue=after)
    assert [len(page["items"]), len(rest["items"])] == [2, 3], rest


def watches(connection):
    gizmos = client.CustomObjectsApi(connection)
    version = gizmos.list_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos")["metadata"]["resourceVersion"]
    gizmos.create_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", gizmo("unseen", 1))
    gizmos.create_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", gizmo("seen", 1, seen="yes"))
    gizmos.patch_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", "seen", {"spec": {"size": 2}})
    gizmos.delete_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", "seen")
    told, events = [], watch.Watch()
    for event in events.stream(
        gizmos.list_namespaced_custom_object,
        *GROUP,
        NAMESPACE,
        "gizmos",
        label_selector="seen=yes",
        resource_version=version,
        timeout_seconds=SECONDS,
    ):
        told.append((event["type"], event["object"]["spec"]["size"]))
        if event["type"] == "DELETED":
            events.stop()
    assert told == [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)], told


def patches(connection):
    maps = client.CoreV1Api(connection)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="patched"), data={"a": "1", "b": "2"})
    maps.create_namespaced_config_map(NAMESPACE, body)
    # The library's own choice for a built-in kind is a strategic merge patch, and for a list a JSON patch.
    told = maps.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"a": None, "c": "3"}})
    assert told.data == {"b": "2", "c": "3"}, told.data
    edits = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "replace", "path": "/data/b", "value": "4"}]
    told = maps.patch_namespaced_config_map("patched", NAMESPACE, edits)
    assert told.data == {"b": "4", "c": "3"}, told.data
    gizmos = client.CustomObjectsApi(connection)
    told = gizmos.patch_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", "p-1", {"spec": {"size": 11}})
    assert told["spec"]["size"] == 11, told


def apply(connection):
    gizmos = dynamic.DynamicClient(connection).resources.get(api_version="example.com/v1", kind="Gizmo")

    def by(manager, size, force=False):
        return gizmos.server_side_apply(
            body=gizmo("applied", size),
            namespace=NAMESPACE,
            name="applied",
            field_manager=manager,
            force_conflicts=force,
        )

    assert by("first", 1).spec.size == 1
    try:
        by("second", 2)
        raise AssertionError("another's field is taken over unasked")
    except dynamic.exceptions.ConflictError:
        pass
    assert by("second", 2, force=True).spec.size == 2


def status(connection):
    gizmos = client.CustomObjectsApi(connection)
    read = gizmos.get_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", "applied")
    read["status"] = {"phase": "ready"}
    read["spec"]["size"] = 99
    told = gizmos.replace_namespaced_custom_object_status(*GROUP, NAMESPACE, "gizmos", "applied", read)
    assert told["status"]["phase"] == "ready" and told["spec"]["size"] == 2, told
    refused(409, gizmos.replace_namespaced_custom_object_status, *GROUP, NAMESPACE, "gizmos", "applied", read)
    body = {"spec": {"replicas": 4}}
    told = gizmos.patch_namespaced_custom_object_scale(*GROUP, NAMESPACE, "gizmos", "applied", body)
    assert told["spec"]["replicas"] == 4, told


def delete(connection):
    gizmos = client.CustomObjectsApi(connection)
    gizmos.delete_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", "applied", propagation_policy="Background")
    refused(404, gizmos.delete_namespaced_custom_object, *GROUP, NAMESPACE, "gizmos", "applied")
    gizmos.delete_collection_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", label_selector="parity=odd")
    left = gizmos.list_namespaced_custom_object(*GROUP, NAMESPACE, "gizmos", label_selector="parity")
    assert len(left["items"]) == 3, left


def main():
    connection = config.new_client_from_config(os.environ["KUBECONFIG"])
    for part in [definition, discovery, lists, watches, patches, apply, status, delete]:
        part(connection)
        print("ok:", part.__name__)


main()
