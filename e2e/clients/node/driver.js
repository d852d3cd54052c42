// Drives an API server with the library that JavaScript programs use, and says each thing that went well.
//
// The server is the one of KUBECONFIG, the definition of the objects is in the file that DEFINITION names.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import * as k8s from '@kubernetes/client-node';

const namespace = 'default';
const apiVersion = 'example.com/v1';
const group = { group: 'example.com', version: 'v1', namespace, plural: 'gizmos' };
const collection = `/apis/${apiVersion}/namespaces/${namespace}/gizmos`;

const config = new k8s.KubeConfig();
config.loadFromDefault();
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const gizmos = config.makeApiClient(k8s.CustomObjectsApi);
const maps = config.makeApiClient(k8s.CoreV1Api);

const gizmo = (name, size, labels = {}) => ({
  apiVersion, kind: 'Gizmo', metadata: { name, namespace, labels }, spec: { size },
});
const head = (name) => ({ apiVersion, kind: 'Gizmo', metadata: { name, namespace } });
const refused = (code, call) => assert.rejects(call, (error) => error.code === code || assert.fail(error));

// The events of a watch, until one says that it is enough.
async function watched(path, query, enough) {
  const events = [];
  await new Promise((resolve, reject) => {
    let controller;
    const ended = (error) => (error?.name === 'AbortError' ? resolve() : reject(error ?? new Error('it ended')));
    const told = (type, object) => {
      events.push({ type, object });
      if (enough(type, object)) {
        resolve();
        controller?.abort();
      }
    };
    new k8s.Watch(config).watch(path, query, told, ended).then((started) => { controller = started; }, reject);
  });
  return events;
}

async function definition() {
  await objects.create(k8s.loadYaml(readFileSync(process.env.DEFINITION, 'utf8')));
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const isEstablished = (_, { status }) =>
    (status?.conditions ?? []).some((one) => one.type === 'Established' && one.status === 'True');
  await watched(path, { fieldSelector: 'metadata.name=gizmos.example.com' }, isEstablished);
}

async function discovery() {
  const groups = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
  assert(groups.groups.some((one) => one.name === 'example.com'));
  const resources = await gizmos.getAPIResources(group);
  const names = resources.resources.map((one) => one.name).sort();
  assert.deepEqual(names, ['gizmos', 'gizmos/scale', 'gizmos/status']);
  assert.equal((await config.makeApiClient(k8s.VersionApi).getCode()).major, '1');
}

async function lists() {
  for (let index = 0; index < 5; index += 1) {
    const made = await objects.create(gizmo(`n-${index}`, index, { parity: index % 2 ? 'odd' : 'even' }));
    assert.equal(made.spec.colour, 'grey');
  }
  await refused(422, objects.create(gizmo('bad', -1)));
  await refused(409, objects.create(gizmo('n-1', 1)));
  await refused(404, objects.read(head('none')));
  for (const [labelSelector, wanted] of [['parity=odd', 2], ['parity!=odd', 3], ['parity in (odd,even)', 5], ['!parity', 0]]) {
    const found = await gizmos.listNamespacedCustomObject({ ...group, labelSelector });
    assert.equal(found.items.length, wanted, labelSelector);
  }
  const page = await gizmos.listNamespacedCustomObject({ ...group, limit: 2 });
  const rest = await gizmos.listNamespacedCustomObject({ ...group, _continue: page.metadata._continue ?? page.metadata.continue });
  assert.deepEqual([page.items.length, rest.items.length], [2, 3]);
}

async function watches() {
  const { metadata: { resourceVersion } } = await gizmos.listNamespacedCustomObject(group);
  await objects.create(gizmo('unseen', 1));
  await objects.create(gizmo('seen', 1, { seen: 'yes' }));
  await objects.patch({ ...head('seen'), spec: { size: 2 } }, undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
  await objects.delete(head('seen'));
  const query = { labelSelector: 'seen=yes', resourceVersion };
  const events = await watched(collection, query, (type) => type === 'DELETED');
  assert.deepEqual(events.map(({ type, object }) => [type, object.spec.size]), [['ADDED', 1], ['MODIFIED', 2], ['DELETED', 2]]);
}

// A cache that lists and watches by itself.
async function informer() {
  const list = () => gizmos.listNamespacedCustomObject(group);
  const cache = k8s.makeInformer(config, collection, list);
  const came = new Promise((resolve, reject) => {
    cache.on('add', (object) => object.metadata.name === 'later' && resolve());
    cache.on('error', reject);
  });
  await cache.start();
  assert.equal(cache.get('n-1', namespace).spec.size, 1);
  await objects.create(gizmo('later', 1));
  await came;
  await cache.stop();
}

async function patches() {
  const body = { metadata: { name: 'patched' }, data: { a: '1', b: '2' } };
  await maps.createNamespacedConfigMap({ namespace, body });
  const patch = (strategy, content) => maps.patchNamespacedConfigMap(
    { name: 'patched', namespace, body: content }, k8s.setHeaderOptions('Content-Type', strategy));
  const { JsonPatch, MergePatch, StrategicMergePatch } = k8s.PatchStrategy;
  assert.deepEqual((await patch(MergePatch, { data: { a: null, c: '3' } })).data, { b: '2', c: '3' });
  const edits = [{ op: 'test', path: '/data/b', value: '2' }, { op: 'replace', path: '/data/b', value: '4' }];
  assert.deepEqual((await patch(JsonPatch, edits)).data, { b: '4', c: '3' });
  const labelled = await patch(StrategicMergePatch, { metadata: { labels: { patched: 'yes' } } });
  assert.equal(labelled.metadata.labels.patched, 'yes');
}

async function apply() {
  const by = (manager, size, force) =>
    objects.patch(gizmo('applied', size), undefined, undefined, manager, force, k8s.PatchStrategy.ServerSideApply);
  assert.equal((await by('first', 1)).spec.size, 1);
  await refused(409, by('second', 2));
  assert.equal((await by('second', 2, true)).spec.size, 2);
}

async function status() {
  const read = await gizmos.getNamespacedCustomObject({ ...group, name: 'applied' });
  const body = { ...read, status: { phase: 'ready' }, spec: { size: 99 } };
  const told = await gizmos.replaceNamespacedCustomObjectStatus({ ...group, name: 'applied', body });
  assert.deepEqual([told.status.phase, told.spec.size], ['ready', 2]);
  await refused(409, gizmos.replaceNamespacedCustomObjectStatus({ ...group, name: 'applied', body }));
}

async function deletes() {
  await objects.delete(head('applied'), undefined, undefined, undefined, undefined, 'Background');
  await refused(404, objects.delete(head('applied')));
  await gizmos.deleteCollectionNamespacedCustomObject({ ...group, labelSelector: 'parity=odd' });
  const left = await gizmos.listNamespacedCustomObject({ ...group, labelSelector: 'parity' });
  assert.equal(left.items.length, 3);
}

for (const part of [definition, discovery, lists, watches, informer, patches, apply, status, deletes]) {
  await part();
  console.log('ok:', part.name);
}
