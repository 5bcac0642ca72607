package eval

// LengthError says that a prompt of so many tokens cannot be made.
type LengthError struct {
	Why    string
	Advice string // what to ask for
}

func (e *LengthError) Error() string { return e.Why + ": " + e.Advice }
