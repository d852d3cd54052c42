//! Reading fields that may be of another type than they should be.
//!
//! Nothing here fails for what a value is; only text that is no JSON does.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use windlass_api::GoDuration;

use crate::SourceKind;

/// What a value is read as. What a type does not expect is its default.
pub(super) trait Shape<'de>: Default {
    fn of_text(_text: &str) -> Self {
        Self::default()
    }

    fn of_flag(_flag: bool) -> Self {
        Self::default()
    }

    fn of_number(_number: u64) -> Self {
        Self::default()
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Reads a field, for `#[serde(deserialize_with)]`.
pub(super) fn lenient<'de, D, S>(deserializer: D) -> Result<S, D::Error>
where
    D: Deserializer<'de>,
    S: Shape<'de>,
{
    Seed(PhantomData).deserialize(deserializer)
}

/// Reads one value of a shape, wherever it stands.
pub(super) struct Seed<S>(PhantomData<S>);

impl<S> Seed<S> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, S: Shape<'de>> DeserializeSeed<'de> for Seed<S> {
    type Value = S;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Shape<'de>> Visitor<'de> for Seed<S> {
    type Value = S;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<S, E> {
        Ok(S::of_text(text))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<S, E> {
        Ok(S::of_flag(flag))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<S, E> {
        Ok(S::of_number(number))
    }

    fn visit_i64<E: Error>(self, _number: i64) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_f64<E: Error>(self, _number: f64) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_unit<E: Error>(self) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<S, A::Error> {
        S::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<S, A::Error> {
        S::of_map(map)
    }
}

/// A list; what is odd in it is the default of its items.
impl<'de, S: Shape<'de>> Shape<'de> for Vec<S> {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut items = Self::new();
        while let Some(item) = list.next_element_seed(Seed::new())? {
            items.push(item);
        }
        Ok(items)
    }
}

/// The texts of a map.
impl<'de> Shape<'de> for BTreeMap<String, String> {
    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut entries = Self::new();
        while let Some(key) = map.next_key::<String>()? {
            if let Some(value) = map.next_value_seed(Seed::<Option<String>>::new())? {
                entries.insert(key, value);
            }
        }
        Ok(entries)
    }
}

impl Shape<'_> for bool {
    fn of_flag(flag: bool) -> Self {
        flag
    }
}

impl Shape<'_> for u64 {
    fn of_number(number: u64) -> Self {
        number
    }
}

/// A text; an empty one is absent.
macro_rules! text {
    ($($of:ty),*) => {$(
        impl Shape<'_> for Option<$of> {
            fn of_text(text: &str) -> Self {
                (!text.is_empty()).then(|| text.into())
            }
        }
    )*};
}

text!(String, Box<str>, Arc<str>);

/// A kind by its name.
impl Shape<'_> for Option<SourceKind> {
    fn of_text(text: &str) -> Self {
        SourceKind::of(text)
    }
}

/// A point of time, RFC 3339.
impl Shape<'_> for Option<Timestamp> {
    fn of_text(text: &str) -> Self {
        text.parse().ok()
    }
}

/// A duration as Go writes it, not below zero.
impl Shape<'_> for Option<Duration> {
    fn of_text(text: &str) -> Self {
        text.parse::<GoDuration>().ok().and_then(GoDuration::to_std)
    }
}

/// How many items a list holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) usize);

impl<'de> Shape<'de> for Count {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut count = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Self(count))
    }
}

/// Makes objects whose fields are read this way a shape: what is no object is one without fields.
macro_rules! object {
    ($($of:ty),*) => {$(
        impl<'de> $crate::objects::lenient::Shape<'de> for $of {
            fn of_map<A: serde::de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
                serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }
    )*};
}

pub(super) use object;
