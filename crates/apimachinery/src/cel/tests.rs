use super::*;

fn document(schema: Value) -> JSONSchemaProps {
    serde_json::from_value(schema).unwrap()
}

fn rules(schema: Value) -> Rules {
    Rules::compile(&document(schema), "s").unwrap().unwrap()
}

/// What a schema with these rules of `spec` says of a change, or of a new object.
fn told(spec: &Value, old: Option<Value>, new: Value) -> Vec<String> {
    let rules = rules(json!({ "type": "object", "properties": { "spec": spec } }));
    let object = |spec: Value| json!({ "spec": spec });
    let errors = rules.check(&object(new), old.map(object).as_ref(), Duration::from_secs(5));
    errors.iter().map(ToString::to_string).collect()
}

fn refused(rule: &Value) -> Vec<String> {
    let schema = json!({ "type": "object", "properties": {
        "count": { "type": "integer" }, "names": { "type": "array", "items": { "type": "string" } },
        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
        "a-b": { "type": "string" } }, "x-kubernetes-validations": [rule] });
    match Rules::compile(&document(schema), "s") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(|error| error.field.clone()).collect(),
    }
}

#[test]
fn a_rule_refuses_with_its_message_path_and_reason() {
    let spec = json!({ "type": "object",
        "properties": { "min": { "type": "integer" }, "max": { "type": "integer" },
            "names": { "type": "array", "items": { "type": "string",
                "x-kubernetes-validations": [{ "rule": "self.startsWith('x')" }] } },
            "by": { "type": "object", "additionalProperties": { "type": "integer",
                "x-kubernetes-validations": [{ "rule": "self > 0", "message": "must be positive" }] } } },
        "x-kubernetes-validations": [
            { "rule": "self.min <= self.max", "messageExpression": "'min is ' + string(self.min)", "fieldPath": ".min" },
            { "rule": "!has(self.max) || self.max < 10", "reason": "FieldValueForbidden", "message": "too much" }] });
    assert_eq!(told(&spec, None, json!({ "min": 1, "max": 2, "names": ["x"], "by": { "a": 1 } })), [""; 0]);
    assert_eq!(
        told(&spec, None, json!({ "min": 20, "max": 12, "names": ["x1", "y"], "by": { "a": 0 } })),
        [
            "spec.min: Invalid value: min is 20",
            "spec: Forbidden: too much",
            "spec.by[a]: Invalid value: 0: must be positive",
            "spec.names[1]: Invalid value: \"y\": failed rule: self.startsWith('x')",
        ]
    );
    let missing = told(&spec, None, json!({ "max": 1 }));
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].contains("no such key: min"), "{missing:?}");
}

#[test]
fn rules_about_changes_look_at_changes_alone_and_what_did_not_change_is_let_through() {
    let spec = json!({ "type": "object", "properties": {
        "fixed": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "immutable" }] },
        "small": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self < 10", "message": "too large" }] },
        "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": { "type": "object", "properties": { "name": { "type": "string" }, "size": { "type": "integer",
                "x-kubernetes-validations": [{ "rule": "self >= oldSelf", "message": "may not shrink" }] } } } } } });
    assert_eq!(told(&spec, None, json!({ "fixed": "a", "small": 1 })), [""; 0]);
    let old = json!({ "fixed": "a", "small": 50, "parts": [{ "name": "a", "size": 5 }, { "name": "b", "size": 5 }] });
    assert_eq!(told(&spec, Some(old.clone()), old.clone()), [""; 0]);
    let new = json!({ "fixed": "b", "small": 51, "parts": [{ "name": "b", "size": 4 }, { "name": "a", "size": 6 },
        { "name": "c", "size": 0 }] });
    assert_eq!(
        told(&spec, Some(old), new),
        [
            "spec.fixed: Invalid value: \"b\": immutable",
            "spec.parts[0].size: Invalid value: 4: may not shrink",
            "spec.small: Invalid value: 51: too large",
        ]
    );
}

#[test]
fn an_optional_old_value_is_asked_for_on_creation_too() {
    let spec = json!({ "type": "object", "properties": { "state": { "type": "string", "x-kubernetes-validations": [
        { "rule": "oldSelf.hasValue() ? oldSelf.value() != 'done' : self == 'new'", "optionalOldSelf": true,
          "message": "must begin as new and stays when it is done" }] } } });
    assert_eq!(told(&spec, None, json!({ "state": "new" })), [""; 0]);
    assert_eq!(told(&spec, None, json!({ "state": "done" })).len(), 1);
    assert_eq!(told(&spec, Some(json!({ "state": "new" })), json!({ "state": "done" })), [""; 0]);
    assert_eq!(told(&spec, Some(json!({ "state": "done" })), json!({ "state": "new" })).len(), 1);
}

#[test]
fn kubernetes_functions_and_types_are_there() {
    let property = |schema: Value, rule: &str| {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{ "rule": rule }]);
        json!({ "type": "object", "properties": { "v": schema } })
    };
    let string = json!({ "type": "string" });
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let number = json!({ "type": "number" });
    let either = json!({ "x-kubernetes-int-or-string": true });
    let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let odd = json!({ "type": "object", "properties": { "a-b": { "type": "string" }, "namespace": { "type": "string" },
        "x_y": { "type": "string" } } });
    for (schema, rule, good, bad) in [
        (&string, "self.matches('^[a-z]+$')", json!("abc"), json!("A")),
        (&string, "self.lowerAscii() == self && self.size() < 4", json!("abc"), json!("abcd")),
        (&string, "self.split('/').size() == 2", json!("a/b"), json!("a")),
        (
            &string,
            "isURL(self) && url(self).getScheme() == 'https'",
            json!("https://a.b/c"),
            json!("http://a.b"),
        ),
        (&string, "quantity(self).isLessThan(quantity('1Gi'))", json!("500Mi"), json!("2Gi")),
        (&string, "self in ['a', 'b'] || self.replace('x', 'y') == 'yy'", json!("xx"), json!("x")),
        (&string, "ip(self).family() == 4", json!("10.0.0.1"), json!("::1")),
        (
            &list,
            "self.all(x, x.contains('a')) && self.exists_one(x, x == 'a')",
            json!(["a", "ba"]),
            json!(["a", "a"]),
        ),
        (&list, "self.isSorted() && self.map(x, size(x)).sum() <= 3", json!(["a", "b"]), json!(["b", "a"])),
        (&list, "self.filter(x, x != '').size() == self.size()", json!(["a"]), json!([""])),
        (&list, "self.join(',') == 'a,b' && self[0] == 'a'", json!(["a", "b"]), json!(["b"])),
        (&number, "self >= 1.5", json!(2), json!(1)),
        (&either, "type(self) == int ? self > 1 : self == 'x'", json!(2), json!("y")),
        (&map, "self.all(k, k.startsWith('a') && self[k] != '')", json!({ "ab": "c" }), json!({ "ab": "" })),
        (
            &odd,
            "self.a__dash__b == self.__namespace__ && self.x_y == 'z'",
            json!({ "a-b": "c", "namespace": "c", "x_y": "z" }),
            json!({ "a-b": "c", "namespace": "d", "x_y": "z" }),
        ),
        (
            &json!({ "type": "string", "format": "date-time" }),
            "self < timestamp('2030-01-01T00:00:00Z')",
            json!("2026-01-01T00:00:00Z"),
            json!("2031-01-01T00:00:00Z"),
        ),
        (
            &json!({ "type": "string", "format": "duration" }),
            "self <= duration('1h')",
            json!("5m"),
            json!("2h"),
        ),
    ] {
        let spec = property(schema.clone(), rule);
        assert_eq!(told(&spec, None, json!({ "v": good })), [""; 0], "{rule}");
        assert_eq!(told(&spec, None, json!({ "v": bad })).len(), 1, "{rule}");
    }
}

#[test]
fn flux_own_rules_compile() {
    for rule in [
        "self.provider == 'aws' || self.provider == 'generic' || !has(self.sts)",
        "!has(self.sts) || !has(self.sts.certSecretRef)",
        "self.provider != 'generic' || !has(self.sts) || self.sts.provider == 'ldap'",
        "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))",
    ] {
        let reference = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "provider": { "type": "string" }, "chart": reference, "chartRef": reference,
            "sts": { "type": "object", "properties": { "provider": { "type": "string" }, "certSecretRef": reference } } },
            "x-kubernetes-validations": [{ "rule": rule }] } } });
        rules(schema);
    }
}

#[test]
fn the_rules_of_our_own_definitions_need_no_thread() {
    for definition in windlass_api::crds::all() {
        for version in &definition.spec.versions {
            let schema =
                version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()).unwrap();
            let depth = Rules::compile(schema, "s").unwrap().map_or(0, |rules| rules.depth);
            assert!(depth <= SHALLOW, "{:?}: {depth}", definition.metadata.name);
        }
    }
}

#[test]
fn the_deepest_rules_that_run_on_the_callers_stack_fit_it() {
    for (before, after) in [("self.names.all(x, ", ")"), ("(true ? ", " : false)"), ("[", "][0]")] {
        let of_turns = |turns| {
            let rule = format!("{}true{}", before.repeat(turns), after.repeat(turns));
            rules(
                json!({ "type": "object", "properties": { "names": { "type": "array", "items": { "type": "string" } } },
                "x-kubernetes-validations": [{ "rule": rule }] }),
            )
        };
        let deepest = (1..SHALLOW).map(of_turns).take_while(|rules| rules.depth <= SHALLOW).last().unwrap();
        let check = || deepest.check(&json!({ "names": ["a"] }), None, Duration::from_secs(5));
        // Half of what a thread of the runtime has.
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let errors = std::thread::scope(|scope| thread.spawn_scoped(scope, check).unwrap().join().unwrap());
        assert_eq!(errors, [], "{before}");
    }
}

#[test]
fn what_cannot_be_compiled_is_refused_with_the_definition() {
    for rule in [
        "self.count ==",
        "self.nope == 1",
        "nope == 1",
        "self.count.nope()",
        "nope(self.count)",
        "self.names.all(x, y == x)",
        "self.names.all(x, x.nope == 1)",
        "Struct{a: 1} == self",
        &format!("{}self.count > 0", "!".repeat(20_000)),
        &format!("{}1{} > 0", "(".repeat(4_000), ")".repeat(4_000)),
        &format!("0{} > 0", "+1".repeat(4_000)),
    ] {
        assert_eq!(refused(&json!({ "rule": rule })), ["s.x-kubernetes-validations[0].rule"], "{rule:.60}");
    }
    let message = json!({ "rule": "self.count > 0", "messageExpression": "self.nope" });
    assert_eq!(refused(&message), ["s.x-kubernetes-validations[0].messageExpression"]);
    for rule in
        ["self.count > 0", "self.labels.a == 'b'", "self.a__dash__b == ''", "oldSelf.count <= self.count"]
    {
        assert_eq!(refused(&json!({ "rule": rule })), [""; 0], "{rule}");
    }
    let items = json!({ "type": "object", "properties": { "l": { "type": "array", "items": { "type": "string",
        "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] } } } });
    Rules::compile(&document(items), "s").unwrap_err();
}

#[test]
fn a_rule_without_an_end_is_ended() {
    let numbers = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let mut rule = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f"] {
        rule = format!("[{numbers}].all({name}, {rule})");
    }
    let spec = json!({ "type": "object", "x-kubernetes-validations": [{ "rule": rule }] });
    let rules = rules(json!({ "type": "object", "properties": { "spec": spec } }));
    let object = json!({ "spec": {} });
    let started = Instant::now();
    let errors = rules.check(&object, None, Duration::from_millis(200));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(errors[0].to_string().contains("cost budget"), "{errors:?}");
}

/// A rule of three loops within each other, each over so many numbers.
fn loops(turns: usize) -> Rules {
    let numbers = (0..turns).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let rule = ["a", "b", "c"]
        .iter()
        .fold("true".to_owned(), |rule, name| format!("[{numbers}].all({name}, {rule})"));
    let spec = json!({ "type": "object", "x-kubernetes-validations": [{ "rule": rule }] });
    rules(json!({ "type": "object", "properties": { "spec": spec } }))
}

#[test]
fn loops_take_a_number_of_turns_that_no_machine_changes() {
    let object = json!({ "spec": {} });
    let within = Duration::from_mins(10);
    assert_eq!(loops(40).check(&object, None, within), []);
    let errors = loops(101).check(&object, None, within);
    assert!(errors[0].to_string().contains("cost budget"), "{errors:?}");
}

#[test]
fn rules_about_what_did_not_change_are_not_due() {
    let rules = loops(1);
    let (old, new) = (json!({ "spec": {} }), json!({ "spec": {}, "status": { "a": 1 } }));
    assert!(rules.is_due(&new, None));
    assert!(!rules.is_due(&new, Some(&old)));
    assert!(rules.is_due(&json!({ "spec": { "a": 1 } }), Some(&old)));
}
