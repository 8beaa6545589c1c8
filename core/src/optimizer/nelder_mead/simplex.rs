//! The simplex of Nelder and Mead as a conversation: it says what to measure next and is told what came of it.

type Point = [f64; 3];

/// Doublings of a parameter between the vertices of the first simplex.
const EDGE: f64 = 2.0;

/// How far the worst vertex is reflected, the simplex expanded, contracted and shrunk.
const REFLECTION: f64 = 1.0;
const EXPANSION: f64 = 2.0;
const CONTRACTION: f64 = 0.5;
const SHRINKAGE: f64 = 0.5;

/// A point and what it is worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vertex {
    pub(super) point: Point,
    pub(super) utility: f64,
}

/// The next point to measure, and why.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub(super) point: Point,
    pub(super) why: &'static str,
}

/// A simplex in search of the greatest utility.
#[derive(Debug, Clone)]
pub(super) struct Simplex {
    /// The best first, once all are measured.
    vertices: Vec<Vertex>,
    /// Points that are still to be measured before the simplex is whole, last one first.
    waiting: Vec<Point>,
    asked: Asked,
}

/// What the next measurement is of.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Vertex,
    Reflection,
    Expansion { reflected: Vertex },
    Contraction { reflected: Vertex },
}

impl Simplex {
    /// A simplex of this point and one further along each axis.
    pub(super) fn around(point: Point) -> Self {
        let mut waiting: Vec<Point> = (0..3).map(|axis| moved(point, axis)).collect();
        waiting.push(point);
        waiting[..3].reverse();
        Self { vertices: Vec::new(), waiting, asked: Asked::Vertex }
    }

    /// The best vertex that was measured.
    pub(super) fn best(&self) -> Option<Vertex> {
        self.vertices.iter().copied().max_by(|a, b| a.utility.total_cmp(&b.utility))
    }

    /// The best vertex, if the simplex is whole and all its vertices come to the same setting.
    pub(super) fn collapsed<S: PartialEq>(&self, setting: impl Fn(Point) -> S) -> Option<Vertex> {
        let whole = self.waiting.is_empty() && matches!(self.asked, Asked::Reflection);
        let best = self.best().filter(|_| whole)?;
        let place = setting(best.point);
        self.vertices.iter().all(|vertex| setting(vertex.point) == place).then_some(best)
    }

    /// What to measure next.
    pub(super) fn next(&self) -> Next {
        let along = |distance| self.beyond(distance);
        match self.asked {
            Asked::Vertex => Next { point: self.waiting.last().copied().unwrap_or_default(), why: "a vertex" },
            Asked::Reflection => Next { point: along(REFLECTION), why: "reflection" },
            Asked::Expansion { .. } => Next { point: along(REFLECTION * EXPANSION), why: "expansion" },
            Asked::Contraction { reflected } if reflected.utility > self.worst().utility => {
                Next { point: along(REFLECTION * CONTRACTION), why: "contraction outside" }
            }
            Asked::Contraction { .. } => Next { point: along(-CONTRACTION), why: "contraction inside" },
        }
    }

    /// Takes what came of the point that [`Simplex::next`] named, or of another that was measured in its place.
    pub(super) fn measured(&mut self, probe: Vertex) {
        match self.asked {
            Asked::Vertex => {
                self.waiting.pop();
                self.vertices.push(probe);
                if self.waiting.is_empty() {
                    self.turn();
                }
            }
            Asked::Reflection if probe.utility > self.vertices[0].utility => self.asked = Asked::Expansion { reflected: probe },
            Asked::Reflection if probe.utility > self.vertices[2].utility => self.replace(probe),
            Asked::Reflection => self.asked = Asked::Contraction { reflected: probe },
            Asked::Expansion { reflected } => self.replace(if probe.utility > reflected.utility { probe } else { reflected }),
            Asked::Contraction { reflected } if probe.utility > reflected.utility.max(self.worst().utility) => {
                self.replace(probe);
            }
            Asked::Contraction { .. } => self.shrink(),
        }
    }

    fn worst(&self) -> Vertex {
        self.vertices[3]
    }

    fn replace(&mut self, vertex: Vertex) {
        self.vertices[3] = vertex;
        self.turn();
    }

    /// Moves all vertices towards the best one, and has them measured anew.
    fn shrink(&mut self) {
        let best = self.vertices[0];
        let towards =
            |vertex: &Vertex| [0, 1, 2].map(|axis| best.point[axis] + SHRINKAGE * (vertex.point[axis] - best.point[axis]));
        self.waiting = self.vertices[1..].iter().rev().map(towards).collect();
        self.vertices.truncate(1);
        self.asked = Asked::Vertex;
    }

    /// Begins a turn: sorts the vertices, the best first.
    fn turn(&mut self) {
        self.vertices.sort_by(|a, b| b.utility.total_cmp(&a.utility));
        self.asked = Asked::Reflection;
    }

    /// The point at a distance beyond the centre of all vertices but the worst, seen from the worst.
    fn beyond(&self, distance: f64) -> Point {
        let worst = self.worst().point;
        [0, 1, 2].map(|axis| {
            let centre = self.vertices[..3].iter().map(|vertex| vertex.point[axis]).sum::<f64>() / 3.0;
            centre + distance * (centre - worst[axis])
        })
    }
}

fn moved(mut point: Point, axis: usize) -> Point {
    point[axis] += EDGE;
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets it search for the top of a function.
    fn search(simplex: &mut Simplex, count: usize, worth: impl Fn(Point) -> f64) -> Vec<&'static str> {
        let mut whys = Vec::new();
        for _ in 0..count {
            let next = simplex.next();
            whys.push(next.why);
            simplex.measured(Vertex { point: next.point, utility: worth(next.point) });
        }
        whys
    }

    fn distance(a: Point, b: Point) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn it_finds_the_top_of_a_hill() {
        let top = [3.0, 1.0, 4.0];
        let mut simplex = Simplex::around([1.0, 0.0, 0.0]);
        search(&mut simplex, 60, |point| -distance(point, top).powi(2));
        let best = simplex.best().unwrap();
        assert!(distance(best.point, top) < 0.1, "{best:?}");
    }

    #[test]
    fn the_first_simplex_is_the_point_and_one_along_each_axis() {
        let mut simplex = Simplex::around([1.0, 0.0, 0.0]);
        let mut points = Vec::new();
        for _ in 0..4 {
            points.push(simplex.next().point);
            simplex.measured(Vertex { point: simplex.next().point, utility: 0.0 });
        }
        assert_eq!(points, [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 2.0, 0.0], [1.0, 0.0, 2.0]]);
    }

    #[test]
    fn on_a_slope_it_reflects_and_expands_and_at_a_top_it_contracts_and_shrinks() {
        let vertices = ["a vertex"; 4];
        let mut simplex = Simplex::around([0.0; 3]);
        let whys = search(&mut simplex, 6, |point| point.iter().sum());
        assert_eq!(whys[..4], vertices);
        assert_eq!(whys[4..], ["reflection", "expansion"]);
        let mut simplex = Simplex::around([0.0; 3]);
        let whys = search(&mut simplex, 9, |point| if distance(point, [0.0; 3]) == 0.0 { 1.0 } else { 0.0 });
        assert_eq!(whys[4..], ["reflection", "contraction inside", "a vertex", "a vertex", "a vertex"]);
    }

    #[test]
    fn it_has_collapsed_once_all_vertices_come_to_the_same() {
        let mut simplex = Simplex::around([0.0; 3]);
        assert!(simplex.collapsed(|_| 0).is_none(), "nothing is measured yet");
        search(&mut simplex, 4, |point| point[0]);
        assert!(simplex.collapsed(|point| point[0] < 1.0).is_none());
        assert!((simplex.collapsed(|_| 0).unwrap().utility - 2.0).abs() < 1e-12);
    }
}
