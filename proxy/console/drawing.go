package console

import (
	"fmt"
	"math"
)

// drawing has columns of nodes, and edges between neighbouring columns.
type drawing struct {
	Label         string
	Width, Height float64
	Heads         []head
	Nodes         []*node
	Edges         []edge
}

type head struct {
	X    float64
	Text string
}

type node struct {
	// Name and Note are its lines, Right what stands at the second one's end.
	Name, Note, Right, Title, Class string
	X, Y, W, H                      float64
	TextX, RightX, NameY, NoteY     float64
}

// edge is from a node to another; weight says how thick it is beside others.
type edge struct {
	from, to *node
	weight   float64
	Busy     bool
	Title    string
	Path     string
	Thick    float64
}

const (
	nodeWidth, nodeHeight = 232, 46
	nodeGap, columnGap    = 12, 112
	headHeight            = 28
)

// draw lays columns out, each in the middle of the height.
func draw(label string, heads []string, columns [][]*node, edges []edge) *drawing {
	most := 1
	for _, c := range columns {
		most = max(most, len(c))
	}
	height := float64(most*(nodeHeight+nodeGap) - nodeGap)
	d := &drawing{Label: label, Width: float64(len(columns)*(nodeWidth+columnGap) - columnGap + 4), Height: height + headHeight + 4}
	for i, c := range columns {
		x := 2 + float64(i*(nodeWidth+columnGap))
		if heads != nil {
			d.Heads = append(d.Heads, head{x, heads[i]})
		}
		y := headHeight + (height-float64(len(c)*(nodeHeight+nodeGap)-nodeGap))/2
		for _, n := range c {
			n.X, n.Y, n.W, n.H = x, y, nodeWidth, nodeHeight
			n.TextX, n.RightX, n.NameY, n.NoteY = x+12, x+nodeWidth-12, y+20, y+37
			if n.Title == "" {
				n.Title = n.Name
			}
			n.Name, n.Note = short(29, n.Name), short(36-len([]rune(n.Right)), n.Note)
			y += nodeHeight + nodeGap
			d.Nodes = append(d.Nodes, n)
		}
	}
	d.connect(edges)
	return d
}

// connect spreads the ends of edges over the sides of their nodes.
func (d *drawing) connect(edges []edge) {
	out, in := map[*node]int{}, map[*node]int{}
	heaviest := 0.0
	for _, e := range edges {
		out[e.from]++
		in[e.to]++
		heaviest = max(heaviest, e.weight)
	}
	outAt, inAt := map[*node]int{}, map[*node]int{}
	at := func(n *node, i, of int) float64 { return n.Y + n.H*float64(i)/float64(of+1) }
	for _, e := range edges {
		outAt[e.from]++
		inAt[e.to]++
		x1, y1 := e.from.X+e.from.W, at(e.from, outAt[e.from], out[e.from])
		x2, y2 := e.to.X, at(e.to, inAt[e.to], in[e.to])
		bend := (x2 - x1) / 2
		e.Path = fmt.Sprintf("M%.0f %.1fC%.0f %.1f %.0f %.1f %.0f %.1f", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2)
		e.Thick = 1.5
		if heaviest > 0 {
			e.Thick = round(1.5 + 4*math.Sqrt(e.weight/heaviest))
		}
		d.Edges = append(d.Edges, e)
	}
}
