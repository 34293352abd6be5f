//! YAML text to a tree, from the events of `saphyr-parser`. Aliases are expanded here, against a budget; tags other than those of
//! the core schema are refused, since nothing here could act on them.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::mapping::Mapping;
use super::{MAX_BYTES, MAX_COPIED_BYTES, MAX_COPIED_NODES, MAX_DEPTH, MAX_NODES, Node, Value, scalar};
use crate::diagnostic::{Diagnostic, Place};

pub(super) fn parse(source: &str, text: &str) -> (Option<Node>, Vec<Diagnostic>) {
    let mut builder = Builder::new(source);
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => builder.on(event, span.start),
            Err(error) => Err(builder.syntax(&error)),
        };
        if let Err(fatal) = step {
            builder.found.push(*fatal);
            return (None, builder.found);
        }
    }
    let whole = Node { value: Value::Null, place: Place::whole(source) };
    (Some(builder.root.unwrap_or(whole)), builder.found)
}

type Step = Result<(), Box<Diagnostic>>;

struct Builder {
    source: Arc<str>,
    stack: Vec<Frame>,
    root: Option<Node>,
    documents: usize,
    anchors: HashMap<usize, Anchored>,
    /// What the document holds, aliases expanded.
    spent: Size,
    /// What was copied to get there: for an anchor, to have it when its alias comes, and for each alias.
    copied: Size,
    found: Vec<Diagnostic>,
}

/// What an alias stands for.
struct Anchored {
    node: Node,
    size: Size,
    height: usize,
}

/// A collection that is still open.
struct Frame {
    place: Place,
    anchor: usize,
    /// How many levels of collections are in it, itself included.
    height: usize,
    /// What was spent when it was opened: the difference is its own size.
    before: Size,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Mapping, Option<Key>),
}

struct Key {
    text: String,
    place: Place,
    is_merge: bool,
}

#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Builder {
    fn new(source: &str) -> Self {
        Self {
            source: Arc::from(source),
            stack: Vec::new(),
            root: None,
            documents: 0,
            anchors: HashMap::new(),
            spent: Size::default(),
            copied: Size::default(),
            found: Vec::new(),
        }
    }

    fn place(&self, marker: Marker) -> Place {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Place { source: Arc::clone(&self.source), line: number(marker.line()), column: number(marker.col() + 1) }
    }

    fn error(&self, code: &'static str, at: Marker, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(code, &self.place(at), message))
    }

    fn syntax(&self, error: &ScanError) -> Box<Diagnostic> {
        if error.info() == "recursion limit exceeded" {
            return self.too_deep(*error.marker());
        }
        let fault = self.error("syntax", *error.marker(), format!("this is not valid YAML: {}", error.info()));
        Box::new(fault.hint("check the indentation, and put values that hold `:`, `#`, `*` or `{` in quotes"))
    }

    fn too_deep(&self, at: Marker) -> Box<Diagnostic> {
        let fault = self.error("too-deep", at, format!("is nested more than {MAX_DEPTH} levels deep"));
        Box::new(fault.hint("a catalog needs nine levels"))
    }

    fn on(&mut self, event: Event<'_>, at: Marker) -> Step {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let fault = self.error("several-documents", at, "a second document starts here; only one is read per file");
                    return Err(Box::new(fault.hint("put it in a file of its own, or remove the `---`")));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref(), at),
            Event::SequenceStart(anchor, tag) => self.open(Content::List(Vec::new()), anchor, tag.as_deref(), at),
            Event::MappingStart(anchor, tag) => self.open(Content::Map(Mapping::default(), None), anchor, tag.as_deref(), at),
            Event::SequenceEnd | Event::MappingEnd => self.close(at),
            Event::Alias(anchor) => {
                let Some(Anchored { size, height, .. }) = self.anchors.get(&anchor) else {
                    let fault = self.error("bad-alias", at, "this alias stands inside what it names: it would never end");
                    return Err(Box::new(fault.hint("write the value out here")));
                };
                let (size, height) = (*size, *height);
                if self.stack.len() + height > MAX_DEPTH {
                    return Err(self.too_deep(at));
                }
                // The budget comes first: nothing is copied that it does not hold.
                self.spend(size, at)?;
                self.copy(size, at)?;
                match self.anchors.get(&anchor).map(|anchored| anchored.node.clone()) {
                    Some(node) => self.add(node, None, height),
                    None => Ok(()),
                }
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>, at: Marker) -> Step {
        let plain = style == ScalarStyle::Plain && !self.is_text(tag, at)?;
        let value = if plain { scalar::resolve(text) } else { Value::Text(text.to_owned()) };
        let node = Node { value, place: self.place(at) };
        let size = Size { nodes: 1, bytes: text.len() };
        self.spend(size, at)?;
        if anchor > 0 {
            self.copy(size, at)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), size, height: 0 });
        }
        self.add(node, Some((text, plain)), 0)
    }

    /// True if the tag makes a text of whatever is written.
    fn is_text(&self, tag: Option<&Tag>, at: Marker) -> Result<bool, Box<Diagnostic>> {
        match tag {
            None => Ok(false),
            Some(tag) if tag.is_yaml_core_schema() => Ok(tag.suffix == "str"),
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Ok(true),
            Some(_) => {
                Err(Box::new(self.error("unsupported-tag", at, "YAML tags (`!name`) mean nothing here").hint("remove the tag")))
            }
        }
    }

    fn open(&mut self, content: Content, anchor: usize, tag: Option<&Tag>, at: Marker) -> Step {
        self.is_text(tag, at)?;
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.too_deep(at));
        }
        let before = self.spent;
        self.spend(Size { nodes: 1, bytes: 0 }, at)?;
        self.stack.push(Frame { place: self.place(at), anchor, height: 1, before, content });
        Ok(())
    }

    fn close(&mut self, at: Marker) -> Step {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let value = match frame.content {
            Content::List(mut items) => {
                items.shrink_to_fit();
                Value::List(items)
            }
            Content::Map(mapping, _) => Value::Map(mapping.finish()),
        };
        let node = Node { value, place: frame.place };
        if frame.anchor > 0 {
            let size = Size { nodes: self.spent.nodes - frame.before.nodes, bytes: self.spent.bytes - frame.before.bytes };
            self.copy(size, at)?;
            self.anchors.insert(frame.anchor, Anchored { node: node.clone(), size, height: frame.height });
        }
        self.add(node, None, frame.height)
    }

    /// Puts a complete node where it belongs; `scalar` is its text and whether it was written without quotes, `height` how many
    /// levels of collections it is.
    fn add(&mut self, node: Node, scalar: Option<(&str, bool)>, height: usize) -> Step {
        let place = node.place.clone();
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        frame.height = frame.height.max(height + 1);
        match &mut frame.content {
            Content::List(items) => items.push(node),
            Content::Map(mapping, key) => match key.take() {
                None => match key_of(node, scalar) {
                    Some(found) => *key = Some(found),
                    None => {
                        return Err(Box::new(
                            Diagnostic::error("bad-key", &place, "a key of a mapping must be a text")
                                .hint("write it without brackets, or in quotes"),
                        ));
                    }
                },
                Some(key) if key.is_merge => mapping.merge(&key.place, node, &mut self.found),
                Some(key) => mapping.insert(key.text, key.place, node, &mut self.found),
            },
        }
        Ok(())
    }

    fn spend(&mut self, size: Size, at: Marker) -> Step {
        self.spent.nodes += size.nodes;
        self.spent.bytes += size.bytes;
        if self.spent.nodes > MAX_NODES || self.spent.bytes > MAX_BYTES {
            let message = format!("has more than {MAX_NODES} values or {MAX_BYTES} bytes of text once its aliases are expanded");
            return Err(Box::new(self.error("too-big", at, message).hint("split the catalog, or use fewer aliases")));
        }
        Ok(())
    }

    /// Anchors inside anchors are copied once for each level, so that a short text could ask for gigabytes.
    fn copy(&mut self, size: Size, at: Marker) -> Step {
        self.copied.nodes += size.nodes;
        self.copied.bytes += size.bytes;
        if self.copied.nodes > MAX_COPIED_NODES || self.copied.bytes > MAX_COPIED_BYTES {
            let message = format!(
                "anchors (`&name`) and aliases (`*name`) copy more than {MAX_COPIED_NODES} values or {} MiB of text up to here",
                MAX_COPIED_BYTES / 1024 / 1024
            );
            let hint = "use fewer aliases, mark smaller parts with `&`, or write a tier, which tenants share without a copy";
            return Err(Box::new(self.error("too-big", at, message).hint(hint)));
        }
        Ok(())
    }
}

fn key_of(node: Node, scalar: Option<(&str, bool)>) -> Option<Key> {
    match (scalar, node.value) {
        (Some((text, plain)), _) => Some(Key { text: text.to_owned(), place: node.place, is_merge: plain && text == "<<" }),
        // An alias of a text.
        (None, Value::Text(text)) => Some(Key { text, place: node.place, is_merge: false }),
        _ => None,
    }
}
