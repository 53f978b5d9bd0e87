// A scheduler extender without any work: each node of a request gets the same score. Its argument is its address.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
)

// What kube-scheduler sends: names with `nodeCacheCapable: true`, otherwise whole nodes.
type request struct {
	NodeNames *[]string
	Nodes     *struct {
		Items []struct {
			Metadata struct{ Name string }
		}
	}
}

type score struct {
	Host  string
	Score int64
}

func prioritize(response http.ResponseWriter, received *http.Request) {
	var asked request
	if err := json.NewDecoder(received.Body).Decode(&asked); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	scores := []score{}
	if asked.NodeNames != nil {
		for _, name := range *asked.NodeNames {
			scores = append(scores, score{Host: name, Score: 5})
		}
	}
	if asked.Nodes != nil {
		for _, node := range asked.Nodes.Items {
			scores = append(scores, score{Host: node.Metadata.Name, Score: 5})
		}
	}
	response.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(response).Encode(scores); err != nil {
		log.Print(err)
	}
}

func main() {
	http.HandleFunc("POST /prioritize", prioritize)
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
