// A provider built on Go's standard library: answers with every model that it finds in a request.
package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Case-sensitive as Go's own routers are, and the other way as gateways written in Go often are.
var routes = []*regexp.Regexp{
	regexp.MustCompile(`/openai/deployments/([^/]+)/`),
	regexp.MustCompile(`/models/([^/]+):[A-Za-z]+/?$`),
	regexp.MustCompile(`/model/([^/]+)/(?:invoke|converse|count-tokens)[a-z-]*/?$`),
	regexp.MustCompile(`(?i)/openai/deployments/([^/]+)/`),
	regexp.MustCompile(`(?i)/models/([^/]+):[a-z]+/?$`),
	regexp.MustCompile(`(?i)/model/([^/]+)/(?:invoke|converse|count-tokens)[a-z-]*/?$`),
}

type request struct {
	Model string `json:"model"`
}

type found map[string]bool

func (f found) add(model string) {
	if model != "" {
		f[model] = true
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, http.HandlerFunc(answer)))
}

func answer(w http.ResponseWriter, r *http.Request) {
	models := found{}
	body, _ := io.ReadAll(r.Body)
	for _, text := range []string{r.URL.Path, path.Clean(r.URL.Path), r.URL.EscapedPath(), path.Clean(r.URL.EscapedPath())} {
		for _, route := range routes {
			if match := route.FindStringSubmatch(text); match != nil {
				models.add(match[1])
				if decoded, err := url.PathUnescape(match[1]); err == nil {
					models.add(decoded)
				}
			}
		}
	}
	for _, plain := range append(decoded(r.Header.Get("content-encoding"), body), body) {
		readJSON(models, plain)
		readForm(models, r, plain)
		readMultipart(models, r.Header.Get("content-type"), plain)
	}
	names := []string{}
	for model := range models {
		names = append(names, model)
	}
	w.Header().Set("content-type", "application/json")
	w.Header().Set("x-parser", "go")
	_ = json.NewEncoder(w).Encode(map[string]any{"models": names})
}

func decoded(coding string, body []byte) [][]byte {
	var all [][]byte
	if strings.Contains(strings.ToLower(coding), "gzip") {
		if reader, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			plain, _ := io.ReadAll(reader)
			all = append(all, plain)
		}
	}
	if strings.Contains(strings.ToLower(coding), "deflate") {
		if reader, err := zlib.NewReader(bytes.NewReader(body)); err == nil {
			plain, _ := io.ReadAll(reader)
			all = append(all, plain)
		}
	}
	return all
}

func readJSON(models found, body []byte) {
	// Unmarshal takes a whole document, a Decoder the first value of a stream.
	var whole, first request
	if json.Unmarshal(body, &whole) == nil {
		models.add(whole.Model)
	}
	if json.NewDecoder(bytes.NewReader(body)).Decode(&first) == nil {
		models.add(first.Model)
	}
	var tree map[string]any
	if json.Unmarshal(body, &tree) == nil {
		if text, ok := tree["model"].(string); ok {
			models.add(text)
		}
	}
}

func readForm(models found, r *http.Request, body []byte) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("content-type"))
	if kind != "application/x-www-form-urlencoded" {
		return
	}
	// The pairs that can be read are read, whatever the others are.
	values, _ := url.ParseQuery(string(body))
	for _, value := range values["model"] {
		models.add(value)
	}
}

func readMultipart(models found, contentType string, body []byte) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return
	}
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := reader.NextPart()
		if err != nil {
			return
		}
		content, _ := io.ReadAll(part)
		if part.FormName() == "model" && part.FileName() == "" {
			models.add(string(content))
		}
	}
}
