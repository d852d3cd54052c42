//! Field numbers of `CustomResourceDefinition`, which generated clients send as protobuf. A schema holds schemas, so that
//! the tables that do are statics.

use super::Kind::{Bool, Bytes, Double, Flag, Given, Int, Json, Many, Map, Number, One, OneOf, Text, Time};
use super::{Message, OBJECT_META};

pub(super) static DEFINITION: &Message = &[
    (1, "metadata", One(OBJECT_META)),
    (
        2,
        "spec",
        One(&[
            (1, "group", Text),
            (3, "names", One(NAMES)),
            (4, "scope", Text),
            (7, "versions", Many(&One(VERSION))),
            (9, "conversion", One(CONVERSION)),
            (10, "preserveUnknownFields", Flag),
        ]),
    ),
    (
        3,
        "status",
        One(&[
            (1, "conditions", Many(&One(CONDITION))),
            (2, "acceptedNames", One(NAMES)),
            (3, "storedVersions", Many(&Text)),
            (4, "observedGeneration", Number),
        ]),
    ),
];
static NAMES: &Message = &[
    (1, "plural", Text),
    (2, "singular", Text),
    (3, "shortNames", Many(&Text)),
    (4, "kind", Text),
    (5, "listKind", Text),
    (6, "categories", Many(&Text)),
];
static CONDITION: &Message = &[
    (1, "type", Text),
    (2, "status", Text),
    (3, "lastTransitionTime", Time),
    (4, "reason", Text),
    (5, "message", Text),
    (6, "observedGeneration", Number),
];
static CONVERSION: &Message = &[
    (1, "strategy", Text),
    (
        2,
        "webhook",
        One(&[(2, "clientConfig", One(WEBHOOK_CLIENT)), (3, "conversionReviewVersions", Many(&Text))]),
    ),
];
static WEBHOOK_CLIENT: &Message = &[
    (1, "service", One(&[(1, "namespace", Text), (2, "name", Text), (3, "path", Given), (4, "port", Int)])),
    (2, "caBundle", Bytes),
    (3, "url", Given),
];
static VERSION: &Message = &[
    (1, "name", Text),
    (2, "served", Bool),
    (3, "storage", Bool),
    (4, "schema", One(&[(1, "openAPIV3Schema", One(&SCHEMA))])),
    (
        5,
        "subresources",
        One(&[
            (1, "status", One(&[])),
            (
                2,
                "scale",
                One(&[
                    (1, "specReplicasPath", Text),
                    (2, "statusReplicasPath", Text),
                    (3, "labelSelectorPath", Given),
                ]),
            ),
        ]),
    ),
    (
        6,
        "additionalPrinterColumns",
        Many(&One(&[
            (1, "name", Text),
            (2, "type", Text),
            (3, "format", Text),
            (4, "description", Text),
            (5, "priority", Number),
            (6, "jsonPath", Text),
        ])),
    ),
    (7, "deprecated", Flag),
    (8, "deprecationWarning", Given),
    (9, "selectableFields", Many(&One(&[(1, "jsonPath", Text)]))),
];
static SCHEMA: [(u64, &str, super::Kind); 44] = [
    (1, "id", Text),
    (2, "$schema", Text),
    (3, "$ref", Given),
    (4, "description", Text),
    (5, "type", Text),
    (6, "format", Text),
    (7, "title", Text),
    (8, "default", Json),
    (9, "maximum", Double),
    (10, "exclusiveMaximum", Flag),
    (11, "minimum", Double),
    (12, "exclusiveMinimum", Flag),
    (13, "maxLength", Int),
    (14, "minLength", Int),
    (15, "pattern", Text),
    (16, "maxItems", Int),
    (17, "minItems", Int),
    (18, "uniqueItems", Flag),
    (19, "multipleOf", Double),
    (20, "enum", Many(&Json)),
    (21, "maxProperties", Int),
    (22, "minProperties", Int),
    (23, "required", Many(&Text)),
    // What is one of several things in JSON has a field for each: the later one of those that are there counts.
    (24, "items", OneOf(&[(1, "", One(&SCHEMA)), (2, "", Many(&One(&SCHEMA)))])),
    (25, "allOf", Many(&One(&SCHEMA))),
    (26, "oneOf", Many(&One(&SCHEMA))),
    (27, "anyOf", Many(&One(&SCHEMA))),
    (28, "not", One(&SCHEMA)),
    (29, "properties", Map(&One(&SCHEMA))),
    (30, "additionalProperties", OneOf(&[(1, "", Bool), (2, "", One(&SCHEMA))])),
    (31, "patternProperties", Map(&One(&SCHEMA))),
    (32, "dependencies", Map(&OneOf(&[(1, "", One(&SCHEMA)), (2, "", Many(&Text))]))),
    (33, "additionalItems", OneOf(&[(1, "", Bool), (2, "", One(&SCHEMA))])),
    (34, "definitions", Map(&One(&SCHEMA))),
    (35, "externalDocs", One(&[(1, "description", Text), (2, "url", Text)])),
    (36, "example", Json),
    (37, "nullable", Flag),
    (38, "x-kubernetes-preserve-unknown-fields", Bool),
    (39, "x-kubernetes-embedded-resource", Flag),
    (40, "x-kubernetes-int-or-string", Flag),
    (41, "x-kubernetes-list-map-keys", Many(&Text)),
    (42, "x-kubernetes-list-type", Given),
    (43, "x-kubernetes-map-type", Given),
    (44, "x-kubernetes-validations", Many(&One(RULE))),
];
static RULE: &Message = &[
    (1, "rule", Text),
    (2, "message", Text),
    (3, "messageExpression", Text),
    (4, "reason", Given),
    (5, "fieldPath", Text),
    (6, "optionalOldSelf", Bool),
];
