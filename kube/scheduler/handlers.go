package scheduler

import "k8s.io/client-go/tools/cache"

// informerHandlers returns handlers for an informer's events about objects of type T. changed is
// called with each new version, and with the version before, which is nil for a new object. deleted
// is called with the last version that is known. Either function may be nil.
func informerHandlers[T any](changed func(before, now *T), deleted func(*T)) (handlers cache.ResourceEventHandlerFuncs) {
	if changed != nil {
		handlers.UpdateFunc = func(oldObj, newObj any) {
			before, _ := oldObj.(*T)
			if now, ok := newObj.(*T); ok {
				changed(before, now)
			}
		}
		handlers.AddFunc = func(obj any) { handlers.UpdateFunc(nil, obj) }
	}
	if deleted != nil {
		handlers.DeleteFunc = func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if object, ok := obj.(*T); ok {
				deleted(object)
			}
		}
	}
	return handlers
}
