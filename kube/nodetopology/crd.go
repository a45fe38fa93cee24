package nodetopology

import (
	topologyapi "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	schema     = apiextensionsv1.JSONSchemaProps
	properties = map[string]schema
)

// CRD returns the definition of the NodeResourceTopology kind, version v1alpha2, with the schema
// that its upstream project publishes for it. Group *.k8s.io is protected: the API server wants the
// approval that the annotation names. A cluster that has the upstream definition already needs
// nothing of this one.
func CRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "noderesourcetopologies." + topologyapi.GroupName,
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "https://github.com/kubernetes/enhancements/pull/1870"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: topologyapi.GroupName,
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind:       "NodeResourceTopology",
				ListKind:   "NodeResourceTopologyList",
				Plural:     "noderesourcetopologies",
				Singular:   "noderesourcetopology",
				ShortNames: []string{"node-res-topo"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name:    v1alpha2.SchemeGroupVersion.Version,
				Served:  true,
				Storage: true,
				Schema:  &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: objectSchema()},
			}},
		},
	}
}

func objectSchema() *schema {
	s := objectOf("The CPU topology of one node.", properties{
		"apiVersion":       text(""),
		"kind":             text(""),
		"metadata":         {Type: "object"},
		"topologyPolicies": listOf("Deprecated: see attributes.", text("")),
		"zones":            listOf("The parts of the node.", zoneSchema()),
		"attributes":       listOf("Facts about the whole node.", attributeSchema()),
	}, "zones")
	return &s
}

func zoneSchema() schema {
	return objectOf("A part of the node that has CPUs, memory or other resources.", properties{
		"name":       text("Unique within its type."),
		"type":       text("What the zone is, such as Package, Node (for a NUMA node) or LLC."),
		"parent":     text("The name of the zone that this one is a part of."),
		"costs":      listOf("Distances to zones.", objectOf("", properties{"name": text("The other zone."), "value": {Type: "integer", Format: "int64"}}, "name", "value")),
		"attributes": listOf("Facts about the zone.", attributeSchema()),
		"resources": listOf("Amounts of resources in the zone.", objectOf("", properties{
			"name":        text("Such as cpu or memory."),
			"capacity":    quantity("All that there is."),
			"allocatable": quantity("What pods can be given."),
			"available":   quantity("What pods have not been given."),
		}, "allocatable", "available", "capacity", "name")),
	}, "name", "type")
}

func attributeSchema() schema {
	return objectOf("", properties{"name": text(""), "value": text("")}, "name", "value")
}

func text(description string) schema { return schema{Type: "string", Description: description} }

func listOf(description string, items schema) schema {
	return schema{Type: "array", Description: description, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
}

func objectOf(description string, p properties, required ...string) schema {
	return schema{Type: "object", Description: description, Properties: p, Required: required}
}

// quantity is the schema of resource.Quantity: an integer, or a decimal number with an optional
// suffix or exponent.
func quantity(description string) schema {
	return schema{
		Description:  description,
		XIntOrString: true,
		AnyOf:        []schema{{Type: "integer"}, {Type: "string"}},
		Pattern: `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|` +
			`([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`,
	}
}
