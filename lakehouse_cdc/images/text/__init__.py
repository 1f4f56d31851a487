"""Text: character sets to UTF-8, labels of ENUM and SET, JSON documents and addresses as the server prints them."""
