//! Reads a fuzzed input: what is being tested stands in front, readable, and the choices (one byte each) are taken from its end, so
//! that a corpus file is a body with a few odd bytes behind it.

pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next choice; 0 when there are no more bytes.
    pub fn choice(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_last() else { return 0 };
        self.0 = rest;
        *byte
    }

    pub fn flag(&mut self) -> bool {
        self.choice() & 1 == 1
    }

    pub fn one_of<'b, T>(&mut self, list: &'b [T]) -> &'b T {
        &list[usize::from(self.choice()) % list.len()]
    }

    /// What is left, cut where up to seven choices say.
    pub fn pieces(&mut self) -> Vec<&'a [u8]> {
        let count = self.choice() % 8;
        let cuts: Vec<usize> = (0..count).map(|_| usize::from(self.choice()) << 8 | usize::from(self.choice())).collect();
        let body = self.0;
        // A place between two bytes, both ends included; an empty piece is a piece too.
        let mut places: Vec<usize> = cuts.into_iter().map(|cut| cut % (body.len() + 1)).collect();
        places.extend([0, body.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
    }
}
