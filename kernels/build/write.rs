//! Writes what `read` found as Rust: sources, structs, and the arguments of every kernel.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::read::{Field, File, Kernel, Parameter, Role, Struct, Type};
use crate::text::{Mistake, Result, Text};

/// The structs that kernels take, by name.
type SharedStructs = BTreeMap<String, Definition>;

/// A struct that kernels take.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) read: Struct,
    /// The file that defines it.
    pub(crate) file: String,
    /// It has ticks of two widths.
    pub(crate) ticks: bool,
}

impl Definition {
    /// The option that a field's type stands for.
    fn option(&self) -> Option<&str> {
        self.read.fields.iter().find_map(|field| match &field.kind {
            Type::Compiled(option) => Some(option.as_str()),
            _ => None,
        })
    }

    fn has_addresses(&self) -> bool {
        self.read.fields.iter().any(|field| field.pointer)
    }

    /// Offsets of its fields and its size, where ticks have `tick` bytes; and whether it has no padding.
    fn layout(&self, tick: usize) -> (Vec<usize>, usize, bool) {
        let (mut offsets, mut end, mut used, mut most) = (Vec::new(), 0usize, 0, 1);
        for field in &self.read.fields {
            let size = size_of_field(field, tick);
            end = end.next_multiple_of(size);
            offsets.push(end);
            end += size * field.array.unwrap_or(1);
            used += size * field.array.unwrap_or(1);
            most = most.max(size);
        }
        let size = end.next_multiple_of(most);
        (offsets, size, used == size)
    }
}

fn size_of_field(field: &Field, tick: usize) -> usize {
    match &field.kind {
        _ if field.pointer => 8,
        Type::Number("u8") => 1,
        Type::Number("u16" | "i16") => 2,
        Type::Number("u32" | "i32" | "f32") => 4,
        Type::Tick => tick,
        _ => 8,
    }
}

/// The definitions of the structs that the kernels of `files` take.
///
/// # Errors
/// A [`Mistake`] for a struct that no file or several files define.
pub(crate) fn find_structs(files: &[File], headers: &[Text]) -> Result<SharedStructs> {
    let mut found = SharedStructs::new();
    for file in files {
        for kernel in &file.kernels {
            for parameter in &kernel.parameters {
                let Type::Struct(name) = &parameter.kind else {
                    continue;
                };
                let refuse = |what: &str| Mistake {
                    file: file.text.name.clone(),
                    line: kernel.line,
                    message: format!("{}: expected one struct {name}, found {what}", kernel.name),
                };
                let mut definition = None;
                let texts =
                    std::iter::once(&file.text).chain(file.headers.iter().map(|&h| &headers[h]));
                for text in texts {
                    if let Some(read) = text.read_struct(name)? {
                        let ticks = file.ticks_of_two_widths
                            && read.fields.iter().any(|f| f.kind == Type::Tick);
                        definition = Some(Definition {
                            read,
                            file: text.name.clone(),
                            ticks,
                        });
                    }
                }
                let definition = definition.ok_or_else(|| refuse("none"))?;
                if let Some(other) = found.insert(name.clone(), definition)
                    && other.file != found[name].file
                {
                    return Err(refuse("two"));
                }
            }
        }
    }
    Ok(found)
}

/// The code of `text`, with assertions about the shared structs that it defines.
pub(crate) fn asserted_code(text: &Text, shared: &SharedStructs) -> String {
    let mut behind = BTreeMap::new();
    for definition in shared.values().filter(|d| d.file == text.name) {
        let name = &definition.read.name;
        let (narrow, narrow_size, _) = definition.layout(4);
        let (wide, wide_size, _) = definition.layout(8);
        let either = |narrow: usize, wide: usize| match definition.ticks {
            true => format!("(WIDE ? {wide} : {narrow})"),
            false => wide.to_string(),
        };
        let mut assertion = format!(
            " static_assert(sizeof({name}) == {}",
            either(narrow_size, wide_size)
        );
        for (field, (narrow, wide)) in definition.read.fields.iter().zip(narrow.iter().zip(&wide)) {
            // NVRTC has no <cstddef>; this is what its front end makes `offsetof` from.
            let offset = format!("__INTADDR__(&(({name} *)0)->{})", field.name);
            assertion += &format!(" && {offset} == {}", either(*narrow, *wide));
        }
        behind.insert(definition.read.end, assertion + ");");
    }
    text.code(&behind)
}

/// Machine code of a variant of a kernel file.
pub(crate) struct BuiltImage {
    /// Index of the file.
    pub(crate) source: usize,
    pub(crate) options: Vec<String>,
    pub(crate) capability: (u32, u32),
    /// Name of its file in the build's folder.
    pub(crate) name: String,
}

/// The list of all kernel files, each a [`Source`] constant.
pub(crate) fn write_sources(files: &[File], headers: &[Text], images: &[BuiltImage]) -> String {
    let mut rust = String::new();
    let _ = writeln!(
        rust,
        "/// Options that every kernel is compiled with.\npub const FIXED_OPTIONS: &[&str] = &{:?};\n",
        crate::FIXED_OPTIONS
    );
    let names: Vec<_> = files
        .iter()
        .map(|file| file.text.name.trim_end_matches(".cu"))
        .collect();
    for (at, (file, name)) in files.iter().zip(&names).enumerate() {
        write_comment(&mut rust, "", &[format!("`{}`.", file.text.name)]);
        rust += "///\n";
        write_comment(&mut rust, "", &file.comment);
        let include = |name: &str| format!("include_str!(concat!(env!(\"OUT_DIR\"), \"/{name}\"))");
        let _ = writeln!(
            rust,
            "pub const {}: Source = Source {{",
            name.to_uppercase()
        );
        let _ = writeln!(
            rust,
            "    name: {name:?},\n    text: {},",
            include(&file.text.name)
        );
        rust += "    headers: &[\n";
        for header in file.headers.iter().map(|&h| &headers[h].name) {
            let _ = writeln!(rust, "        ({header:?}, {}),", include(header));
        }
        let variants: Vec<_> = file.variants.iter().map(|v| format!("&{v:?}")).collect();
        let _ = writeln!(
            rust,
            "    ],\n    variants: &[{}],\n    images: &[",
            variants.join(", ")
        );
        for image in images.iter().filter(|image| image.source == at) {
            let _ = writeln!(
                rust,
                "        Image {{ options: &{:?}, capability: {:?}, code: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{}\")) }},",
                image.options, image.capability, image.name
            );
        }
        rust += "    ],\n};\n\n";
    }
    let all: Vec<_> = names.iter().map(|name| name.to_uppercase()).collect();
    let _ = writeln!(
        rust,
        "/// Every kernel file.\npub const ALL: &[Source] = &[{}];",
        all.join(", ")
    );
    let most = files
        .iter()
        .flat_map(|f| &f.kernels)
        .map(|k| k.parameters.len())
        .max();
    let _ = writeln!(
        rust,
        "\n/// Most arguments of a kernel.\npub const MOST_ARGUMENTS: usize = {};",
        most.unwrap_or(0)
    );
    rust
}

/// The structs that host and kernels share.
pub(crate) fn write_structs(shared: &SharedStructs) -> String {
    let mut rust = String::new();
    for (name, definition) in shared {
        if !definition.has_addresses() {
            write_struct(&mut rust, name, definition);
        }
        let (generics, exact) = match (definition.has_addresses(), definition.option()) {
            (true, None) => ("<'static>", true),
            (true, Some(_)) => ("<'static, u8>", true),
            (false, _) => ("", false),
        };
        let mut tests = vec![(generics, 8)];
        if definition.ticks {
            tests = vec![("<i32>", 4), ("<i64>", 8)];
        }
        for (generics, tick) in tests {
            let (offsets, size, _) = definition.layout(tick);
            let _ = writeln!(rust, "const _: () = assert!(");
            let relation = if exact { ">=" } else { "==" };
            let _ = write!(rust, "    size_of::<{name}{generics}>() {relation} {size}");
            for (field, offset) in definition.read.fields.iter().zip(offsets) {
                let field = &field.name;
                let _ = write!(
                    rust,
                    "\n        && std::mem::offset_of!({name}{generics}, {field}) == {offset}"
                );
            }
            rust += "\n);\n\n";
        }
    }
    rust
}

fn write_struct(rust: &mut String, name: &str, definition: &Definition) {
    let (generic, bound) = if definition.ticks {
        ("<T>", "<T: Tick>")
    } else {
        ("", "")
    };
    write_comment(rust, "", &definition.read.comment);
    rust.push_str("#[derive(Debug, Clone, Copy, PartialEq, Default)]\n#[repr(C)]\n");
    let _ = writeln!(rust, "pub struct {name}{generic} {{");
    for field in &definition.read.fields {
        let kind = match &field.kind {
            Type::Tick if !definition.ticks => "i64".to_owned(),
            kind => rust_type(kind, &SharedStructs::new()),
        };
        let kind = match field.array {
            None => kind,
            Some(count) => format!("[{kind}; {count}]"),
        };
        write_comment(rust, "    ", &[sentence(&field.comment)]);
        let _ = writeln!(rust, "    pub {}: {kind},", field.name);
    }
    let _ = writeln!(rust, "}}\n\nimpl{bound} Element for {name}{generic} {{}}\n");
    if definition.layout(4).2 && definition.layout(8).2 {
        rust.push_str("#[allow(unsafe_code)]\n// SAFETY: numbers without padding between or behind them, as their sizes say.\n");
        let _ = writeln!(rust, "unsafe impl{bound} Plain for {name}{generic} {{}}\n");
    }
}

/// The arguments of the kernels of `files`, which share a module.
pub(crate) fn write_module<'a>(
    files: impl Iterator<Item = &'a File>,
    shared: &SharedStructs,
) -> String {
    let mut rust = String::new();
    for file in files {
        for kernel in &file.kernels {
            write_kernel(&mut rust, file, kernel, shared);
        }
    }
    rust
}

/// Type parameters of a kernel's arguments: their names, their bounds, and the options that they stand for.
struct Generics {
    names: String,
    bounds: String,
    options: String,
}

impl Generics {
    fn new(kernel: &Kernel, shared: &SharedStructs) -> Self {
        let mut names = vec!["'a".to_owned()];
        let mut bounds = vec!["'a".to_owned()];
        let mut options = Vec::new();
        for parameter in &kernel.parameters {
            let option = match &parameter.kind {
                Type::Tick => Some("WIDE"),
                Type::Compiled(option) => Some(option.as_str()),
                Type::Struct(name) if shared[name].ticks => Some("WIDE"),
                Type::Struct(name) => shared[name].option(),
                _ => None,
            };
            let Some(option) = option else { continue };
            let generic = generic_name(option);
            let bound = if option == "WIDE" { "Tick" } else { "Sample" };
            if !names.contains(&generic) {
                options.push(format!(
                    "({option:?}, <{generic} as crate::KernelOption>::VALUE)"
                ));
                bounds.push(format!("{generic}: crate::{bound}"));
                names.push(generic);
            }
        }
        Self {
            names: names.join(", "),
            bounds: bounds.join(", "),
            options: options.join(", "),
        }
    }
}

fn write_kernel(rust: &mut String, file: &File, kernel: &Kernel, shared: &SharedStructs) {
    let Generics {
        names,
        bounds,
        options,
    } = Generics::new(kernel, shared);
    let name = camel_case(&kernel.name);
    write_comment(
        rust,
        "",
        &[format!(
            "Arguments of the kernel `{}` of `{}`.",
            kernel.name, file.text.name
        )],
    );
    if !kernel.comment.is_empty() {
        rust.push_str("///\n");
    }
    write_comment(rust, "", &kernel.comment);
    let _ = writeln!(rust, "#[derive(Debug)]\npub struct {name}<{names}> {{");
    for parameter in &kernel.parameters {
        write_comment(rust, "    ", &[describe(parameter)]);
        let _ = writeln!(
            rust,
            "    pub {}: {},",
            parameter.name,
            field_type(parameter, shared)
        );
    }
    rust.push_str("}\n\n#[allow(unsafe_code)]\n// SAFETY: one pointer per parameter, in the order of the signature that it was written from. A field's first bytes are\n// the argument: a number, an address or a `repr(C)` struct.\n");
    let _ = writeln!(
        rust,
        "unsafe impl<{bounds}> crate::Arguments for {name}<{names}> {{"
    );
    let source = file.text.name.trim_end_matches(".cu").to_uppercase();
    let _ = writeln!(rust, "    const SOURCE: crate::Source = crate::{source};");
    let _ = writeln!(rust, "    const KERNEL: &'static str = {:?};", kernel.name);
    let _ = writeln!(
        rust,
        "    const COUNT: usize = {};",
        kernel.parameters.len()
    );
    let _ = writeln!(
        rust,
        "    const OPTIONS: &'static [(&'static str, &'static str)] = &[{options}];\n"
    );
    write_pointers(rust, kernel);
    write_check(rust, kernel);
    rust.push_str("}\n\n");
}

/// The method that gives the driver an address per argument.
fn write_pointers(rust: &mut String, kernel: &Kernel) {
    rust.push_str("    fn pointers(&self) -> [*mut std::ffi::c_void; crate::MOST_ARGUMENTS] {\n");
    rust.push_str("        let mut pointers = [std::ptr::null_mut(); crate::MOST_ARGUMENTS];\n");
    for (i, parameter) in kernel.parameters.iter().enumerate() {
        let _ = writeln!(
            rust,
            "        pointers[{i}] = std::ptr::from_ref(&self.{}).cast_mut().cast();",
            parameter.name
        );
    }
    rust.push_str("        pointers\n    }\n\n");
}

/// The method that compares lengths with those that the signature states.
fn write_check(rust: &mut String, kernel: &Kernel) {
    let needs: Vec<_> = kernel
        .parameters
        .iter()
        .filter_map(|p| Some((&p.name, p.needs.as_ref()?)))
        .collect();
    let used = needs.iter().any(|(_, needs)| needs.rust.contains("grid"));
    let grid = if used { "grid" } else { "_grid" };
    let _ = writeln!(
        rust,
        "    fn check(&self, {grid}: crate::Blocks) -> Result<(), crate::TooShort> {{"
    );
    for (name, needs) in needs {
        let _ = writeln!(
            rust,
            "        crate::arguments::check_length({name:?}, self.{name}.len(), {})?;",
            needs.rust
        );
    }
    rust.push_str("        Ok(())\n    }\n");
}

/// A sentence about a parameter.
fn describe(parameter: &Parameter) -> String {
    let role = match parameter.role {
        Role::Value => "value",
        Role::In => "input",
        Role::InPlace => "input, which an output may replace",
        Role::Out => "output",
        Role::OutOrNull => "output, if it is wanted",
        Role::InOut => "input and output",
    };
    match &parameter.needs {
        None => format!("`{}`: {role}.", parameter.name),
        Some(needs) => format!(
            "`{}`: {role}, at least `{}` values.",
            parameter.name, needs.written
        ),
    }
}

fn field_type(parameter: &Parameter, shared: &SharedStructs) -> String {
    let kind = rust_type(&parameter.kind, shared);
    let wrapper = match parameter.role {
        Role::Value => return kind,
        Role::In => "In",
        Role::InPlace => "InPlace",
        Role::Out => "Out",
        Role::OutOrNull => "MaybeOut",
        Role::InOut => "InOut",
    };
    format!("crate::{wrapper}<'a, {kind}>")
}

fn rust_type(kind: &Type, shared: &SharedStructs) -> String {
    match kind {
        Type::Number(name) => (*name).to_owned(),
        Type::Tick => generic_name("WIDE"),
        Type::Compiled(option) => generic_name(option),
        Type::Struct(name) => {
            let definition = &shared[name];
            let mut generics = Vec::new();
            generics.extend(definition.has_addresses().then(|| "'a".to_owned()));
            generics.extend(definition.ticks.then(|| generic_name("WIDE")));
            generics.extend(definition.option().map(generic_name));
            match generics.is_empty() {
                true => format!("crate::{name}"),
                false => format!("crate::{name}<{}>", generics.join(", ")),
            }
        }
    }
}

/// The type parameter that stands for the option: its first letter, and `T` for ticks.
fn generic_name(option: &str) -> String {
    if option == "WIDE" {
        "T".to_owned()
    } else {
        option[..1].to_owned()
    }
}

fn camel_case(name: &str) -> String {
    let words = name
        .split('_')
        .map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// A comment behind a field as a sentence.
fn sentence(comment: &str) -> String {
    let word = comment.bytes().take_while(u8::is_ascii_lowercase).count() > 1;
    if word {
        format!("{}{}.", comment[..1].to_uppercase(), &comment[1..])
    } else {
        format!("{comment}.")
    }
}

/// `lines` as a doc comment; brackets outside code spans are no links.
fn write_comment(rust: &mut String, indent: &str, lines: &[String]) {
    let mut code = false;
    for line in lines {
        let mut shown = String::new();
        for c in line.trim().chars() {
            code ^= c == '`';
            if !code && "[]<>*_".contains(c) {
                shown.push('\\');
            }
            shown.push(c);
        }
        let _ = writeln!(rust, "{}", format!("{indent}/// {shown}").trim_end());
    }
}
