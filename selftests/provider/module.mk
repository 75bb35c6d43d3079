# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The provider with a fake daemon: NAME_test.c is an ordinary verbs program that runs with the library preloaded.
# In sanitizer builds, verify_asan_link_order=0 accepts that the preloaded library comes before the sanitizer's
# runtime, and use_sigaltstack=0 avoids a false report when a cancelled thread frees its signal stack.
PROVIDER_TESTS := surface device queues life extended memory mappings discard remap srq xrc datagram paths tree dv drain \
	rw reasons children habits nap pause stack umad lock

$(foreach t,$(PROVIDER_TESTS),$(eval $(call program,selftests/provider/$(t),$(addprefix \
	selftests/provider/,$(t)_test.c fixture.c fake.c fake_serve.c fake_queues.c fake_umad.c),,-libverbs -lpthread -ldl)))
$(foreach t,$(PROVIDER_TESTS),$(eval $(call suite,provider/$(t),300,env \
	ASAN_OPTIONS=verify_asan_link_order=0:use_sigaltstack=0 LD_PRELOAD=$(BUILD)/libxroce.so \
	$(BUILD)/selftests/provider/$(t),$(BUILD)/selftests/provider/$(t) $(BUILD)/libxroce-dl.so,parallel \
	$(if $(filter memory mappings discard remap children,$(t)),root))))

# Devices of a kernel beside those of xroce
$(eval $(call shared_library,fake_verbs.so,selftests/provider/fake_verbs.c,selftests/provider/fake_verbs.map))
$(eval $(call program,selftests/provider/order,$(addprefix \
	selftests/provider/,order_test.c fixture.c fake.c fake_serve.c fake_queues.c fake_umad.c),,-libverbs -lpthread -ldl))
$(eval $(call suite,provider/order,60,env ASAN_OPTIONS=verify_asan_link_order=0:use_sigaltstack=0 \
	LD_PRELOAD=$(BUILD)/libxroce.so:$(BUILD)/fake_verbs.so:$(BUILD)/fake_kernel.so $(BUILD)/selftests/provider/order,\
	$(BUILD)/selftests/provider/order $(BUILD)/libxroce.so $(BUILD)/fake_verbs.so $(BUILD)/fake_kernel.so,parallel))

# Runtime directories, without the library
$(eval $(call test_program,provider/places,selftests/provider/places_test.c provider/base/environment.c \
	$(addprefix provider/control/,runtime_dir.c sockets.c),,,30,parallel))

# rdma_cm, without librdmacm
CM_TESTS := cm cm_sources cm_numbers cm_surface

$(eval $(call shared_library,fake_kernel.so,selftests/provider/fake_kernel.c,selftests/provider/fake_kernel.map,-ldl))
$(foreach t,$(CM_TESTS),$(eval $(call program,selftests/provider/$(t),$(addprefix \
	selftests/provider/,$(t)_test.c cm_calls.c fake_cm.c),,-lpthread -ldl)))
$(foreach t,$(CM_TESTS),$(eval $(call suite,provider/$(t),180,env \
	ASAN_OPTIONS=verify_asan_link_order=0:use_sigaltstack=0 \
	LD_PRELOAD=$(BUILD)/libxroce.so:$(BUILD)/fake_kernel.so $(BUILD)/selftests/provider/$(t),\
	$(BUILD)/selftests/provider/$(t) $(BUILD)/libxroce-dl.so $(BUILD)/fake_kernel.so,parallel)))

$(eval $(call program,selftests/provider/loader,selftests/provider/loader_test.c,,-ldl))
$(eval $(call suite,provider/loader,30,env ASAN_OPTIONS=verify_asan_link_order=0 \
	LD_PRELOAD=$(BUILD)/libxroce.so $(BUILD)/selftests/provider/loader,\
	$(BUILD)/selftests/provider/loader $(BUILD)/libxroce-dl.so,parallel))
