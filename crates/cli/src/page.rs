/// Text for a terminal: understandable without colour, and at most 100 columns wide.
#[derive(Debug)]
pub struct Page {
    text: String,
    colour: bool,
}

impl Page {
    const RESET: &str = "\x1b[0m";
    const BOLD: &str = "\x1b[1m";
    const GREEN: &str = "\x1b[32m";
    const RED: &str = "\x1b[31m";
    const WIDTH: usize = 96;

    #[cfg(test)]
    pub const CODES: [&str; 4] = [Self::RESET, Self::BOLD, Self::GREEN, Self::RED];

    pub fn new(colour: bool) -> Self {
        Self { text: String::new(), colour }
    }

    pub fn into_text(self) -> String {
        self.text
    }

    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.line(line);
        }
    }

    pub fn title(&mut self, text: &str) {
        let title = self.bold(text);
        self.line(&title);
        self.line("");
    }

    pub fn heading(&mut self, text: &str) {
        self.line("");
        self.title(text);
    }

    pub fn paragraph(&mut self, text: &str) {
        self.item("  ", text);
    }

    /// Wrapped text whose first line starts with `lead` and whose other lines are indented as far.
    pub fn item(&mut self, lead: &str, text: &str) {
        let indent = " ".repeat(lead.len());
        let mut line = lead.to_owned();
        let mut empty = true;
        for word in text.split_whitespace() {
            if !empty && line.len() + 1 + word.len() > Self::WIDTH {
                self.line(&line);
                line.clone_from(&indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(&line);
    }

    pub fn bold(&self, text: &str) -> String {
        self.paint(Self::BOLD, text)
    }

    /// Pad before painting: escape codes have no width.
    pub fn paint_good(&self, good: bool, text: &str) -> String {
        self.paint(if good { Self::GREEN } else { Self::RED }, text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("{code}{text}{}", Self::RESET) } else { text.to_owned() }
    }
}
