//! Reads kernel files: the signature of every kernel, the structs that it shares with the host, and what comments beginning
//! with `//:` add to them. `kernels/README.md` describes the form.

use crate::text::{Result, Text};

/// The type of a value, or of the values that a pointer leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// A number, by its name in Rust.
    Number(&'static str),
    /// A tick of 32 or 64 bits: the file is compiled for either.
    Tick,
    /// A number type that the file is compiled for by the option of this name.
    Compiled(String),
    /// A struct that the host shares.
    Struct(String),
}

/// Use of an argument by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A value: `T x`.
    Value,
    /// Memory that it only reads: `const T *x`.
    In,
    /// As `In`; an output of the kernel may lie in the same place.
    InPlace,
    /// Memory that it writes before anything reads it: `T *x`.
    Out,
    /// The same as `Out`, or null.
    OutOrNull,
    /// Memory that it reads and writes: `T *x`.
    InOut,
}

/// One parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) kind: Type,
    /// Number of values that the kernel touches at most, as a formula of the other arguments.
    pub(crate) needs: Option<Formula>,
}

/// A formula in Rust over the fields of `self` and `grid`, and as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Formula {
    pub(crate) rust: String,
    pub(crate) written: String,
}

/// A kernel's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) comment: Vec<String>,
    pub(crate) parameters: Vec<Parameter>,
}

/// A struct as a kernel file defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) comment: Vec<String>,
    pub(crate) fields: Vec<Field>,
    /// Index of the line on which it ends.
    pub(crate) end: usize,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) comment: String,
    pub(crate) kind: Type,
    /// Number of values; `None`: it is no array.
    pub(crate) array: Option<usize>,
    pub(crate) pointer: bool,
}

/// A kernel file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) text: Text,
    /// The Rust module of its arguments.
    pub(crate) module: String,
    /// The comment at its beginning.
    pub(crate) comment: Vec<String>,
    /// Sets of options that it is tested with.
    pub(crate) variants: Vec<Vec<String>>,
    /// Indices of the headers that it includes, and that they include.
    pub(crate) headers: Vec<usize>,
    /// It is compiled for ticks of 32 and of 64 bits.
    pub(crate) ticks_of_two_widths: bool,
    pub(crate) kernels: Vec<Kernel>,
}

impl Text {
    /// The struct `name` of this file, if it defines one.
    ///
    /// # Errors
    /// A [`Mistake`] for a field that cannot be shared.
    pub(crate) fn read_struct(&self, name: &str) -> Result<Option<Struct>> {
        let start = format!("struct {name} {{");
        let Some(begin) = self.lines.iter().position(|(code, _)| *code == start) else {
            return Ok(None);
        };
        let mut fields = Vec::new();
        for (at, (code, comment)) in self.lines.iter().enumerate().skip(begin + 1) {
            if code == "};" {
                let (_, comment) = self.comments_before(begin);
                return Ok(Some(Struct {
                    name: name.to_owned(),
                    comment: comment.into_iter().map(str::to_owned).collect(),
                    fields,
                    end: at,
                }));
            }
            let wanted = "one field per line, `TYPE NAME;  // comment`";
            let Some((declared, comment)) = code.strip_suffix(';').zip(comment.as_deref()) else {
                return self.mistake(at, format!("expected {wanted}, found {code:?}"));
            };
            let (declared, array) = match declared.strip_suffix(']').and_then(|d| d.split_once('['))
            {
                None => (declared, None),
                Some((declared, count)) => match count.parse() {
                    Ok(count) => (declared, Some(count)),
                    Err(_) => {
                        return self
                            .mistake(at, format!("expected a number of values, found {count:?}"));
                    }
                },
            };
            let declaration = Declaration::new(declared);
            fields.push(Field {
                name: declaration.name,
                comment: comment.trim().to_owned(),
                kind: match declaration.kind.as_str() {
                    // An address has no type on the host.
                    "void" if declaration.pointer => Type::Number("u8"),
                    kind => self.read_type(at, kind)?,
                },
                array,
                pointer: declaration.pointer,
            });
        }
        self.mistake(
            begin,
            format!("struct {name}: expected a line `}};`, found the end of the file"),
        )
    }

    fn read_type(&self, at: usize, c: &str) -> Result<Type> {
        let number = match c {
            "u8" => "u8",
            "u16" => "u16",
            "i16" => "i16",
            "u32" | "unsigned int" => "u32",
            "u64" | "unsigned long long" | "size_t" => "u64",
            "int" => "i32",
            "long long" => "i64",
            "float" => "f32",
            "double" => "f64",
            "Tick" => return Ok(Type::Tick),
            name if name.starts_with(char::is_uppercase) && !name.contains(' ') => {
                let option = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                let name = name.to_owned();
                return Ok(if option {
                    Type::Compiled(name)
                } else {
                    Type::Struct(name)
                });
            }
            other => {
                return self.mistake(at, format!(
                    "expected a number type, a struct, or an option in capital letters, found {other:?}"
                ));
            }
        };
        Ok(Type::Number(number))
    }
}

/// `[const] TYPE [*] NAME`, as C has it.
struct Declaration {
    name: String,
    kind: String,
    constant: bool,
    pointer: bool,
}

impl Declaration {
    fn new(text: &str) -> Self {
        let spaced = text.replace('*', " * ").replace("__restrict__", " ");
        let mut words: Vec<&str> = spaced.split_whitespace().collect();
        let name = words.pop().unwrap_or_default().to_owned();
        let pointer = words.last() == Some(&"*");
        if pointer {
            words.pop();
        }
        let constant = words.first() == Some(&"const");
        Self {
            name,
            kind: words[usize::from(constant)..].join(" "),
            constant,
            pointer,
        }
    }
}

impl File {
    /// Reads the kernel file `text`, which may include `headers`.
    ///
    /// # Errors
    /// A [`Mistake`] for what the file must not have, with its line.
    pub(crate) fn new(text: Text, headers: &[Text]) -> Result<Self> {
        let included = find_headers(&text, headers)?;
        let stem = text.name.trim_end_matches(".cu");
        let module = text.notes("module").next();
        let module = module
            .unwrap_or(stem.split('_').next().unwrap_or(stem))
            .to_owned();
        let variants = text.notes("variants").flat_map(|line| line.split('|'));
        let variants = variants
            .map(|v| v.split_whitespace().map(str::to_owned).collect())
            .collect();
        let comment = text
            .lines
            .iter()
            .map_while(|(_, comment)| comment.as_deref());
        let comment = comment
            .take_while(|c| !c.starts_with(':'))
            .map(str::to_owned)
            .collect();
        let all = std::iter::once(&text).chain(included.iter().map(|&i| &headers[i]));
        let both = all
            .clone()
            .any(|t| t.lines.iter().any(|(code, _)| code == "typedef int Tick;"));
        let mut kernels: Vec<Kernel> = Vec::new();
        for (at, (code, _)) in text.lines.iter().enumerate() {
            if !code.contains("__global__") {
                continue;
            }
            let mut kernel = read_kernel(&text, at)?;
            if kernels.iter().any(|other| other.name == kernel.name) {
                return text.mistake(
                    at,
                    format!("expected one kernel {}, found a second", kernel.name),
                );
            }
            if !both {
                let ticks = kernel
                    .parameters
                    .iter_mut()
                    .filter(|p| p.kind == Type::Tick);
                ticks.for_each(|p| p.kind = Type::Number("i64"));
            }
            kernels.push(kernel);
        }
        Ok(Self {
            text,
            module,
            comment,
            variants,
            headers: included,
            ticks_of_two_widths: both,
            kernels,
        })
    }
}

/// The headers that `text` includes, and that they include: each once, the innermost first.
fn find_headers(text: &Text, headers: &[Text]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for (at, name) in text.includes() {
        let Some(header) = headers.iter().position(|h| h.name == name) else {
            return text.mistake(
                at,
                format!("expected a header of this folder, found {name:?}"),
            );
        };
        let code = &headers[header].lines;
        if let Some(at) = code
            .iter()
            .position(|(code, _)| code.contains("__global__"))
        {
            return headers[header].mistake(at, "expected a header without kernels, found one");
        }
        for inner in find_headers(&headers[header], headers)?
            .into_iter()
            .chain([header])
        {
            if !found.contains(&inner) {
                found.push(inner);
            }
        }
    }
    Ok(found)
}

/// The kernel whose signature begins on line `at`.
fn read_kernel(text: &Text, at: usize) -> Result<Kernel> {
    let mut signature = String::new();
    for (code, _) in &text.lines[at..] {
        signature += code;
        signature.push(' ');
        if code.ends_with('{') {
            break;
        }
    }
    let form = "extern \"C\" __global__ void [__launch_bounds__(…)] NAME(PARAMETERS) {";
    let parts = signature
        .strip_prefix("extern \"C\" __global__ void ")
        .and_then(|rest| {
            let rest = match rest.trim_start().strip_prefix("__launch_bounds__") {
                Some(bounds) => &bounds[closing_parenthesis(bounds)? + 1..],
                None => rest,
            };
            let (name, rest) = rest.split_once('(')?;
            let (parameters, rest) = rest.split_once(')')?;
            (rest.trim() == "{" && is_name(name.trim())).then_some((name.trim(), parameters))
        });
    let Some((name, parameters)) = parts else {
        return text.mistake(
            at,
            format!("expected `{form}`, found `{}`", signature.trim()),
        );
    };
    let mut kernel = Kernel {
        name: name.to_owned(),
        line: at + 1,
        comment: Vec::new(),
        parameters: Vec::new(),
    };
    let mut constant = Vec::new();
    for parameter in parameters.split(',') {
        let d = Declaration::new(parameter);
        if !is_name(&d.name) || kernel.parameters.iter().any(|p| p.name == d.name) {
            return text.mistake(
                at,
                format!("{name}: expected `TYPE NAME`, found `{}`", parameter.trim()),
            );
        }
        let role = match (d.pointer, d.constant) {
            (false, _) => Role::Value,
            (true, true) => Role::In,
            (true, false) => Role::Out,
        };
        constant.push(d.pointer.then_some(d.constant));
        kernel.parameters.push(Parameter {
            name: d.name,
            role,
            kind: text.read_type(at, &d.kind)?,
            needs: None,
        });
    }
    let (first, comments) = text.comments_before(at);
    let mut said = Vec::new();
    for (i, comment) in comments.into_iter().enumerate() {
        match comment.strip_prefix(": ") {
            None => kernel.comment.push(comment.trim().to_owned()),
            Some(note) => said.push(read_note(text, first + i, note, &mut kernel, &constant)?),
        }
    }
    let unsaid =
        (0..kernel.parameters.len()).find(|i| constant[*i] == Some(false) && !said.contains(i));
    if let Some(i) = unsaid {
        let p = &kernel.parameters[i].name;
        return text.mistake(
            at,
            format!("{name}: expected a line `//: {p}: out` or `//: {p}: in-out`, found none"),
        );
    }
    Ok(kernel)
}

/// Takes a line `//: NAME: ROLE[, FORMULA]` into `kernel`; which parameter it is about.
fn read_note(
    text: &Text,
    at: usize,
    note: &str,
    kernel: &mut Kernel,
    constant: &[Option<bool>],
) -> Result<usize> {
    let form = "`//: NAME: ROLE` or `//: NAME: ROLE, NUMBER OF VALUES`";
    let Some((name, rest)) = note.split_once(": ") else {
        return text.mistake(at, format!("expected {form}, found `//: {note}`"));
    };
    let Some(i) = kernel.parameters.iter().position(|p| p.name == name) else {
        return text.mistake(
            at,
            format!("expected a parameter of {}, found {name:?}", kernel.name),
        );
    };
    let (role, needs) = match rest.split_once(", ") {
        Some((role, needs)) => (role, Some(needs)),
        None => (rest, None),
    };
    let (expected, role) = match (constant[i], role) {
        (None, "value") => ("", Role::Value),
        (Some(true), "in") => ("", Role::In),
        (Some(true), "in place") => ("", Role::InPlace),
        (Some(false), "out") => ("", Role::Out),
        (Some(false), "out or null") => ("", Role::OutOrNull),
        (Some(false), "in-out") => ("", Role::InOut),
        (None, _) => ("`value`", Role::Value),
        (Some(true), _) => ("`in` or `in place`, since it is const", Role::In),
        (Some(false), _) => (
            "`out`, `out or null` or `in-out`, since it is not const",
            Role::Out,
        ),
    };
    if !expected.is_empty() {
        return text.mistake(at, format!("{name}: expected {expected}, found {rest:?}"));
    }
    let needs = match needs {
        None => None,
        Some(written) => match translate(written, &kernel.parameters) {
            Ok(rust) => Some(Formula {
                rust,
                written: written.to_owned(),
            }),
            Err(word) => {
                return text.mistake(at, format!("{name}: expected parameters of {}, `grid.x`, constants and `rows(…)`, found {word:?}", kernel.name));
            }
        },
    };
    if std::mem::replace(&mut kernel.parameters[i].needs, needs).is_some() {
        return text.mistake(at, format!("{name}: expected one line, found two"));
    }
    kernel.parameters[i].role = role;
    Ok(i)
}

/// `formula` in Rust: parameters become numbers of values, never below 0.
fn translate(formula: &str, parameters: &[Parameter]) -> std::result::Result<String, String> {
    let mut rust = String::new();
    let mut rest = formula;
    while let Some(next) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let methods = [".max(", ".div_ceil(", ".saturating_sub("];
        if let Some(method) = methods.into_iter().find(|m| rest.starts_with(m)) {
            rust += method;
            rest = &rest[method.len()..];
            continue;
        }
        if !word(next) {
            if !" +*/(),".contains(next) {
                return Err(rest.to_owned());
            }
            rust.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        }
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (name, mut behind) = rest.split_at(end);
        let is_number = name.chars().all(|c| c.is_ascii_digit());
        if is_number || name == "rows" && behind.starts_with('(') {
            rust += name;
        } else if name == "grid" {
            let axis = ["x", "y", "z"]
                .iter()
                .position(|a| behind.get(1..2) == Some(*a));
            rust += &format!("n(grid.{})", axis.ok_or(rest)?);
            behind = &behind[2..];
        } else if parameters.iter().any(|p| p.name == name) {
            // A length or a size of a struct that the host makes.
            let own = [".len()", ".columns()"]
                .iter()
                .find(|own| behind.starts_with(**own));
            let own = own.copied().unwrap_or_default();
            rust += &format!("n(self.{name}{own})");
            behind = &behind[own.len()..];
        } else if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            rust += &format!("n({name})");
        } else {
            return Err(name.to_owned());
        }
        rest = behind;
    }
    Ok(rust)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Index at which the parenthesis that `text` begins with closes.
fn closing_parenthesis(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 && c == ')' {
            return Some(at);
        }
    }
    None
}
